"""A world's cluster as its API would list it: well objects, a fault's traces, innocent oddities."""
