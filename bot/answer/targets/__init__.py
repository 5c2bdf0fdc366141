"""The answer, where people look for it: the alert's Slack thread and the PagerDuty incident, each
posted once."""
