"""What waits, in which order it is taken, and how much of it at once."""
