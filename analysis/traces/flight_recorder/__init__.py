"""Flight recorder dumps: what every rank's collectives were doing when a job hung, and which rank
is to blame."""
