"""Incidents of the live shop, played through the bot's production path and graded."""
