"""Simple and published methods on the same case folders: what any analysis has to beat."""
