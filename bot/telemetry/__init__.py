"""What the bot says about itself: metrics, traces, logs, health."""
