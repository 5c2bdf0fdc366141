"""Moments of the files that `record.py` writes, ns."""

START = 5_000_000_000
"""Of the trace's clock."""
SINCE_1970 = 1_790_000_000_000_000_000
"""The same moment since 1970."""
