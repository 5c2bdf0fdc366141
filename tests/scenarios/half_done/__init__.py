"""An investigation that a worker of an earlier version left half done, as text: made by
`record.py`."""
