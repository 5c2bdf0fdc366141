"""What gitleaks' rules find in a text, for `benchmarks.redaction`.

Reads the rules from gitleaks' own file (github.com/gitleaks/gitleaks, config/gitleaks.toml) and
applies them as its detect/detect.go does to one fragment: keyword, expression, entropy, allow
lists. Rules about paths and baselines play no part, and what gitleaks decodes first is not decoded.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import re2


@dataclass(frozen=True)
class AllowList:
    """What is no secret: expressions about the secret, the match or its line, and words."""

    target: str
    patterns: tuple[Any, ...]
    stopwords: tuple[str, ...]
    needs_all: bool

    def allows(self, secret: str, match: str, line: str) -> bool:
        """Whether this finding is none."""
        text = {"match": match, "line": line}.get(self.target, secret)
        by_pattern = any(pattern.search(text) for pattern in self.patterns)
        by_word = any(word in secret.lower() for word in self.stopwords)
        if self.needs_all:
            return (by_pattern or not self.patterns) and (by_word or not self.stopwords)
        return by_pattern or by_word


@dataclass(frozen=True)
class GitleaksRule:
    """One rule that looks into texts."""

    id: str
    pattern: Any
    keywords: tuple[str, ...]
    entropy: float
    group: int
    allowed: tuple[AllowList, ...]


def gitleaks_mask(file: Path) -> Callable[[str], str]:
    """What is left of a text once all that the rules of a file find is taken out. Raises OSError,
    and TOMLDecodeError where it is no such file."""
    document = tomllib.loads(file.read_text())
    everywhere = _allow_lists([document.get("allowlist", {}), *document.get("allowlists", [])])
    rules = [_rule(row) for row in document["rules"] if "regex" in row]

    def shown(text: str) -> str:
        low = text.lower()
        secrets: set[str] = set()
        for rule in rules:
            if not rule.keywords or any(word in low for word in rule.keywords):
                secrets.update(_secrets(rule, text, everywhere))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "[SECRET]")
        return text

    return shown


def _secrets(rule: GitleaksRule, text: str, everywhere: tuple[AllowList, ...]) -> Iterable[str]:
    for match in rule.pattern.finditer(text):
        groups = [group for group in match.groups() if group]
        secret = match.group(rule.group) if rule.group else (groups or [match.group()])[0]
        if not secret or (rule.entropy and shannon_entropy(secret) <= rule.entropy):
            continue
        if rule.id.startswith("generic") and not any(c.isdigit() for c in secret):
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start:].partition("\n")[0]
        if not any(
            allow_list.allows(secret, match.group(), line)
            for allow_list in (*rule.allowed, *everywhere)
        ):
            yield secret


def shannon_entropy(text: str) -> float:
    """Bits per character."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)


def _rule(row: dict[str, Any]) -> GitleaksRule:
    return GitleaksRule(
        row["id"],
        re2.compile(row["regex"]),
        tuple(word.lower() for word in row.get("keywords", ())),
        float(row.get("entropy", 0)),
        int(row.get("secretGroup", 0)),
        _allow_lists(row.get("allowlists", [])),
    )


def _allow_lists(rows: Iterable[dict[str, Any]]) -> tuple[AllowList, ...]:
    return tuple(
        AllowList(
            row.get("regexTarget", "secret"),
            tuple(re2.compile(regex) for regex in row.get("regexes", ())),
            tuple(word.lower() for word in row.get("stopwords", ())),
            row.get("condition", "OR").upper() == "AND",
        )
        for row in rows
        if row.get("regexes") or row.get("stopwords")
    )
