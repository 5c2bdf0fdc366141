"""What each button under an answer does: one module for those that belong together."""
