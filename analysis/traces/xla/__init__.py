"""Profiles of XLA (JAX, PyTorch/XLA, TensorFlow): XPlane files, and the Chrome JSON beside them."""
