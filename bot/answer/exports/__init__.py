"""An answer for elsewhere: a postmortem draft, JSON, and a task for a coding agent; the same bytes
every time."""
