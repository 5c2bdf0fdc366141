"""Second floor: alerts in, investigation, replies out, web pages, settings, command line."""
