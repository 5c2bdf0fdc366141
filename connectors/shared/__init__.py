"""What connectors share, by room."""
