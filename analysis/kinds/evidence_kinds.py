"""Kinds of evidence: the tables and files of a case folder, by what they hold."""

from typing import Literal

EvidenceKind = Literal[
    "metrics",
    "logs",
    "spans",
    "changes",
    "topology",
    "monitors",
    "states",
    "traces",
    "alert",
    "alert_query",
    "external",
]
"""`alert_query` is what the alert's own query gave, over the incident and earlier days. `external`
is what a tool outside answered: read by people and models, weighed by nothing."""
