"""The settings of each vendor, a file each; `bot.settings.settings` puts them together."""
