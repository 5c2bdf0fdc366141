"""Deploys, merges, builds and flags, whoever reports them."""
