"""The names of things in a sentence: services, signals, commits, paths, hosts, as opposed to words
and numbers."""

from __future__ import annotations

import re

from bot.answer.writer.quantities import UNIT_PATTERN, canonical

_BETWEEN = re.compile(r"[\s=()\[\]{};\"“”‘’|,<>‹›]+|→|->|–|—")
_ORDINARY = frozenset({"e.g", "i.e", "a.m", "p.m", "n/a", "etc", "vs"})
_PRODUCTS = frozenset(
    {
        "PagerDuty",
        "GitHub",
        "GitLab",
        "PyTorch",
        "DataLoader",
        "OpenTelemetry",
        "CloudWatch",
        "JavaScript",
        "gRPC",
    }
)
"""Capitals inside a word that are no name of the user's own."""
_PARTS = (
    r"service|svc|db|database|api|server|worker|cache|queue|proxy|gateway|broker|cluster|node"
    r"|pod|store|topic|bucket"
)
_RULES = (
    re.compile(r"#\d+|\d+(?:\.\d+){2,}.*"),
    re.compile(r"(?=.*[A-Za-z])(?=.*\d).+"),
    re.compile(r".*(?:_|::|@|\\).*"),
    re.compile(r".*[A-Za-z]{2,}\.[A-Za-z]{2,}.*"),
    re.compile(r"/.+|(?:[^/]+/){2,}.*"),
    re.compile(r".*[a-z][A-Z].*"),
    re.compile(rf"[a-z][a-z\-]*-(?:{_PARTS})", re.IGNORECASE),
)
_NUMBER = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+\-]?\d{1,3})?"
_QUANTITY = re.compile(
    rf"[~≈+\-]?{_NUMBER}(?:-?(?:{UNIT_PATTERN}))?(?:-[a-z]+)?|{_NUMBER}-{_NUMBER}"
    rf"(?:{UNIT_PATTERN})?"
    r"|(?:\d+(?:h|min|ms|m|s)){2,}|\d+(?:st|nd|rd|th)|\d{1,2}:\d\d[\d:.]*(?:z|[ap]m|[+\-][\d:]+)?"
    r"|\d{4}-\d\d-\d\d(?:t[\d:.]+(?:z|[+\-][\d:]+)?)?",
    re.IGNORECASE,
)


def identifiers(text: str) -> list[str]:
    """The names in the text, in order, as they stand there."""
    found = []
    for token in _BETWEEN.split(canonical(text)):
        name = token.strip(".:!?'…*`-").removesuffix("'s")
        if name and name.lower() not in _ORDINARY and name not in _PRODUCTS and _is_name(name):
            found.append(name)
    return found


def without_names(text: str) -> str:
    """The text, made canonical, without its names, so that their digits are not read as numbers."""
    rest = canonical(text)
    for name in sorted(set(identifiers(text)), key=len, reverse=True):
        rest = rest.replace(name, " ")
    return rest


def is_percentile_of(name: str, text: str) -> bool:
    """Whether `p99`, `99` or `99th` is the percentile of a signal that the text names
    (`latency_p99`, `lat99`)."""
    match = re.fullmatch(r"p?(\d{2,3})(?:th)?", name)
    return match is not None and re.search(rf"(?<!\d){match[1]}(?!\d)", text) is not None


def _is_name(token: str) -> bool:
    return not _QUANTITY.fullmatch(token) and any(rule.fullmatch(token) for rule in _RULES)
