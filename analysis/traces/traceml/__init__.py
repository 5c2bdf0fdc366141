"""What TraceML recorded of a job: step phases and memory by rank, and its own verdict."""
