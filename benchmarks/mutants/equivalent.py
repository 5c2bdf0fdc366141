"""Mutations that change nothing anybody can notice, each with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.mutants.mutation import Mutation

LIST = Path(__file__).with_name("equivalent.toml")
Lines = tuple[str, str, str]
"""The path and the line before and after: line numbers move."""


def read_equivalents(path: Path = LIST) -> dict[Lines, str]:
    """The reason for each. Raises KeyError where an entry has none."""
    reasons = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", []):
        reasons[entry["path"], entry["before"], entry["after"]] = entry["reason"]
    return reasons


def is_equivalent(mutation: Mutation, reasons: Mapping[Lines, str]) -> bool:
    """Whether the list names it."""
    return (mutation.path, mutation.before, mutation.after) in reasons
