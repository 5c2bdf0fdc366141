"""Rules that say the same of a job whatever measured it: traces, TraceML, logs, snapshots."""
