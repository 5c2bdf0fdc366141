"""One package per vendor."""
