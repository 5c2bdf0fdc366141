"""Queries in a vendor's language, which may come from a model: what they may ask."""
