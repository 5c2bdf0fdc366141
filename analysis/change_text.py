"""What the text of a change says: what it touches, whether it can alter behaviour, what it shares with symptoms."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}(?![a-z])|\d+(?:\.\d+)*")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with from that this not has was are but into per http https get set err error errors return func"
        " var nil null true false new add use string int ctx context request response service services server client"
        " main pkg src internal name value data json code test line lines ratio rate count total sec seconds above"
        " below",
    )
)
_HARMLESS_FILES = re.compile(
    r"(^|/)(docs?|tests?|testdata|\.github|examples?)/|(_test\.\w+|\.(md|rst|txt|css|scss|svg|png|html))$"
    r"|(^|/)(CODEOWNERS|LICENSE|README\S*|\.golangci\.yml|\.gitignore|\.editorconfig)$"
)
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'|\b\d+(?:\.\d+)*\b|(?<=: )[\w./-]+$")
_COMMENT = re.compile(r"^\s*(//|#|\*|/\*|--)")
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)\b")
_STATUS_CODE = re.compile(r"^(40[0-59]|410|422|429|50[0-4])$")
MOVED_ONLY = 0.8
"""A change that keeps this share of the words it removes, and every literal, moves code and does not alter it."""


@dataclass(frozen=True)
class ChangeText:
    """The readable parts of one change."""

    title: str
    files: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """Words of the title, the paths and the changed lines."""
        return words_of([self.title, *self.files, *self.removed, *self.added])

    @property
    def harmless(self) -> bool:
        """Only documentation, tests, styles or repository housekeeping."""
        return bool(self.files) and all(_HARMLESS_FILES.search(f) for f in self.files)

    @property
    def altered_words(self) -> frozenset[str]:
        """Words of the changed lines that occur more often on one side: what the change took out or put in."""
        before, after = _counts(self.removed), _counts(self.added)
        return words_of([*((before - after) + (after - before))])

    @property
    def moves_code_only(self) -> bool:
        """The changed lines, comments aside, keep their literals and most of their words."""
        before, after = _literals(self.removed), _literals(self.added)
        if before == after and len(before) >= 2:
            return True
        removed, added = set(_counts(self.removed)), set(_counts(self.added))
        return before == after and bool(removed) and len(removed & added) >= MOVED_ONLY * len(removed)

    @property
    def changes_literals(self) -> bool:
        """A number, a quoted text or a configured value is replaced by another."""
        before, after = _literals(self.removed), _literals(self.added)
        return bool(before - after) and bool(after - before)

    @property
    def patches_dependency(self) -> bool:
        """Only versions change, and only in their last place."""
        before, after = _VERSION.findall("\n".join(self.removed)), _VERSION.findall("\n".join(self.added))
        return (
            bool(before)
            and len(before) == len(after) == len(self.removed)
            and all(a[:2] == b[:2] for a, b in zip(before, after, strict=True))
        )


def read_change_text(title: str, files: str | None, diff: str | None) -> ChangeText:
    """From the columns of the changes table; `files` is a JSON list or comma separated, `diff` a unified diff."""
    lines = (diff or "").splitlines()
    return ChangeText(
        title,
        _paths(files),
        tuple(x[1:] for x in lines if x.startswith("-") and not x.startswith("---")),
        tuple(x[1:] for x in lines if x.startswith("+") and not x.startswith("+++")),
    )


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Lower-case words of three letters or more, camel case split, without the most common ones."""
    found = {w.lower() for text in texts for w in _WORD.findall(text)}
    return frozenset(_stem(w) for w in found if len(w) >= 3 and w not in _COMMON)


def service_words(service: str) -> frozenset[str]:
    """The words that name a service, without "service", "svc" and instance numbers."""
    parts = re.split(r"[^A-Za-z]+", service)
    short = {re.sub(r"(?<=...)(service|svc|server|api)$", "", p.lower()) for p in parts}
    return frozenset(p for p in short if len(p) >= 3)


def touches(text: ChangeText, service: str) -> bool:
    """Whether a path or the title names the service."""
    said = {p for part in [text.title, *text.files] for p in re.split(r"[^a-z]+", part.lower()) if p}
    return any(word == p or (len(word) >= 5 and p.startswith(word)) for word in service_words(service) for p in said)


def rarity(changes: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """Inverse document frequency of each word over the changes: a word in every change tells nothing."""
    sets = list(changes)
    seen = Counter(w for words in sets for w in words)
    return {w: math.log((len(sets) + 1.0) / (n + 0.5)) for w, n in seen.items()}


def relevance(change: frozenset[str], symptoms: frozenset[str], weights: Mapping[str, float]) -> float:
    """In [0, 1): how much of the change's rare words the symptoms repeat."""
    shared = sum(weights.get(w, 0.0) for w in sorted(change & symptoms))
    return 1.0 - math.exp(-max(0.0, shared) / 5.0)


def _stem(word: str) -> str:
    for ending in ("ization", "ation", "ing", "ies", "ed", "es", "s", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _literals(lines: Iterable[str]) -> frozenset[str]:
    """Numbers, quoted texts and configured values; a status code is often only given its name."""
    found = {m for line in lines if not _COMMENT.match(line) for m in _LITERAL.findall(line)}
    return frozenset(m for m in found if not _STATUS_CODE.match(m))


def _counts(lines: Iterable[str]) -> Counter[str]:
    return Counter(w for line in lines if not _COMMENT.match(line) for w in re.findall(r"\w+", line))


def _paths(files: str | None) -> tuple[str, ...]:
    if not files:
        return ()
    try:
        loaded = json.loads(files)
    except (ValueError, RecursionError):
        loaded = None
    if isinstance(loaded, list):
        return tuple(str(f) for f in loaded)
    return tuple(f.strip() for f in files.split(",") if f.strip())
