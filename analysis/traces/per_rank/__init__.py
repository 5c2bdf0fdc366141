"""Analyses of one rank's trace: pure functions on its columns, in nanoseconds."""
