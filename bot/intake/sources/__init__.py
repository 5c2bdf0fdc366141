"""The alert sources that Faultline itself has, a file each: see bot/settings/alert_sources.py."""
