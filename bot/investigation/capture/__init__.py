"""Taking a trace of a running job: the only thing that is ever asked of a machine."""
