"""The settings of each vendor, a file each; `bot.settings` puts them together."""
