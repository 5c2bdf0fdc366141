"""Access tokens of clouds, and the headers and certificates of servers."""
