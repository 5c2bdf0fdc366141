"""Sentry: `connector.py` is what the registry builds, the other files are its parts."""

ERROR_RATE = "error_rate"
"""The signal that an issue's events are counted as."""
