"""AMD's rocprofv3: its JSON as columns."""
