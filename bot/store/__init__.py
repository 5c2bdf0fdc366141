"""What the bot must not forget: investigations, deliveries, progress and posts, in SQLite or
PostgreSQL. Synchronous, each operation one transaction; callers on an event loop use `in_store`."""
