"""Runbooks: the operator's guidance as Markdown files, matched to alerts. Guidance is never
evidence."""
