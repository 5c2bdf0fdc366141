"""Alert sources: webhooks and Slack events become alerts."""
