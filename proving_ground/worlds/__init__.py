"""Labelled incidents from first principles; `docs/proving-ground.md` says how to make them."""
