"""The pages say what is so."""
