"""What connectors of databases and brokers share."""
