"""Perfetto's own format (`.pftrace`): track events as columns."""
