"""Operating an installation: what is wrong with it, backup and restore, versions of its tables,
deletion."""
