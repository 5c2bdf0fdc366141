"""The way in: webhooks and Slack events become alerts."""
