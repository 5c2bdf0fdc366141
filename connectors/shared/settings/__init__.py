"""The keys that sections of the settings file share, with their types and limits."""
