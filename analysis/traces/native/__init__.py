"""The parts of the trace engine that are compiled: C sources, their loader, and functions that use
them if they can."""
