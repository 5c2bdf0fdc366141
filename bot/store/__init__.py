"""What the bot must not forget: investigations, deliveries, progress and posts, in SQLite or
PostgreSQL."""
