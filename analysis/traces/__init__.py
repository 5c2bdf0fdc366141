"""Readers for GPU training traces and pure analyses on their columns."""
