"""The HTTP API: the same investigations for programs, described by the models that check them."""
