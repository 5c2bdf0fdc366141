"""NVIDIA Nsight Systems: SQLite exports (`nsys export --type sqlite`) as the same columns as
profiler traces."""
