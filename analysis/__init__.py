"""Ground floor: the vocabulary of evidence and findings, and pure analyzers over a case folder."""
