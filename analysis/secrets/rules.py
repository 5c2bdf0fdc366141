"""The operator's own rules: what is always a secret, what never is, and what is not kept at all.

Patterns are RE2's: time is linear in the text whatever the pattern says, and what RE2 cannot do
(look-around, back-references) is refused when the rule is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import re2

Action = Literal["redact", "keep", "block"]

LONGEST_PATTERN = 1_000
MOST_MEMORY = 8 << 20
"""Bytes of the compiled pattern; a larger one is refused."""
BLOCKED = "[BLOCKED]"
"""What is left of a text that a rule blocks."""
CUSTOM = "CUSTOM"


class BadPattern(ValueError):
    """The pattern cannot be used; says why."""


@dataclass(frozen=True)
class Rule:
    """One rule. A pattern with groups is about its first group; otherwise about the whole match."""

    pattern: str
    action: Action = "redact"


def compiled(pattern: str) -> Any:
    """The pattern of a rule for RE2. Raises BadPattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it is longer than {LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        made = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
    # Such a pattern would mask between all letters of every text.
    if made.search("") is not None:
        raise BadPattern("it matches the empty text, and so every text")
    return made


class RuleSet:
    """Rules by what they do."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._redact = _of("redact", rules)
        self._keep = _of("keep", rules)
        self._block = _of("block", rules)
        self.is_empty = not rules

    def blocks(self, text: str) -> bool:
        """Whether the whole text is to go."""
        return any(pattern.search(text) is not None for pattern in self._block)

    def redacted(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of what the rules call secret."""
        return _match_spans(self._redact, text)

    def harmless_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of what the rules call harmless."""
        return _match_spans(self._keep, text)


def _of(action: Action, rules: Iterable[Rule]) -> list[Any]:
    return [compiled(rule.pattern) for rule in rules if rule.action == action]


def _match_spans(patterns: Iterable[Any], text: str) -> Iterator[tuple[int, int]]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            # An optional group may not have matched: then the whole match is meant.
            group = 1 if match.re.groups and match.group(1) is not None else 0
            if match.start(group) < match.end(group):
                yield match.start(group), match.end(group)
