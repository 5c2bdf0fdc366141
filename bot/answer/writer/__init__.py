"""Wording a diagnosis: the built-in writer, the model writer, and the guard every report passes."""
