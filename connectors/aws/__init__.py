"""AWS: `connector.py` is what the registry builds, the other files are its parts."""
