"""Slack: `connector.py` is what the registry builds, the other files are its parts."""

CHANNEL_LABEL, THREAD_LABEL = "slack_channel", "slack_thread"
"""Labels of an alert that came as a message: where it was posted."""
