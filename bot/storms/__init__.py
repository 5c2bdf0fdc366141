"""What becomes of an alert that comes in: which are investigated, which belong together, when a channel is told."""
