"""`faultline eval`: how often the answer is right, on case folders whose truth is known
(docs/accuracy.md)."""
