"""Analyses that compare ranks: they take one small summary per rank, never the traces
themselves."""
