"""First floor: one file per vendor; fetch, map to evidence tables, link for a human. Read-only."""
