"""What the text of a change says: what it touches, whether it can alter behaviour, what it shares
with symptoms.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}(?![a-z])|\d+(?:\.\d+)*")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with from that this not has was are but into per http https get set err "
        "error errors return func"
        " var nil null true false new add use string int ctx context request response service "
        "services server client"
        " main pkg src internal name value data json code test line lines ratio rate count total "
        "sec seconds above"
        " below off enabled disabled enable disable com org net www github gitlab golang google "
        "load none type list"
        " item items call run self this result object message log info page time handle handler "
        "make made used",
    )
)
_HARMLESS_FILES = re.compile(
    r"(^|/)(docs?|documentation|tests?|testdata|__tests__|__snapshots__|\.github|\.circleci"
    r"|\.gitlab|\.vscode|examples?)/"
    r"|([_.](test|spec)\.\w+|(^|/)test_[^/]+\.py|\.(md|rst|adoc|txt|css|scss|less|svg|png|jpe?g"
    r"|gif|ico|woff2?|html|snap))$"
    r"|(^|/)(CODEOWNERS|LICENSE|README\S*|CHANGELOG\S*|\.golangci\.ya?ml|\.gitlab-ci\.yml"
    r"|\.gitignore|\.editorconfig"
    r"|Jenkinsfile|\.eslintrc\S*|\.prettierrc\S*|\.pre-commit-config\.yaml)$"
)
_NOT_PRODUCTION = re.compile(
    r"(^|[/_.-])(staging|stage|dev|develop|development|sandbox|qa|uat|preview)([/_.-]|$)", re.I
)
_LITERAL = re.compile(
    r"\"[^\"]*\"|'[^']*'|`[^`]*`|\b\d+(?:\.\d+)*\b|(?<=: )[\w./:@-]+$|\((?:before|after)\)$"
)
"""The last is what stands for a value that is not shown and differs."""
_COMMENT = re.compile(r"^\s*(//|#|\*|/\*|--|<!--|\"\"\")")
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)\b")
_STATUS_CODE = re.compile(r"^(40[0-59]|410|422|429|50[0-4])$")
_KEY = re.compile(r"^\s*-?\s*[\"']?([A-Za-z_][\w.-]{2,80})[\"']?\s*(?::=|[:=](?!=))")
_IMAGE = re.compile(r"\s*(?:[\w.-]+ )?image: ")
"""A line of a pod template, with or without the name of its container."""
_HUNK = re.compile(r"^@@[^@]*@@ ?(.*)$|^@@ (.*)$")
_DECLARING = frozenset(
    re.findall(
        r"\w+",
        "func function def fn fun return void error err string str int int64 float float64 bool "
        "boolean byte bytes"
        " public private protected static final const let var val self this nil null None true "
        "false async await",
    )
)
"""What a helper that takes over some lines is declared with."""
RAREST = 1.5
"""One word in common may be chance, however rare it is among the changes; it takes several to be
sure."""
_ANY_SERVICE = frozenset({"service", "svc", "server", "api", "app"})
LONG_NAME = 5
"""From this many letters on the beginning of a word is enough to name a service: `checkout` in
`checkouts`."""
MOVED_ONLY = 0.8
"""A change that keeps this share of the words it removes, and every literal, moves code and does
not alter it."""
MOVED_WITH_LITERALS = 0.6
"""The share that is enough where it has literals, at least two, and keeps all of them."""
MOST_NEW = 0.5
"""What adds more new words than half of those it takes out does more than moving code: a helper's
name is one."""
MAX_LINES = 500
MAX_LINE = 200
"""Of a diff so much is read: the rest of a longer one is generated code."""


@dataclass(frozen=True)
class ChangeText:
    """The readable parts of one change. `context` are the unchanged lines and the names in the
    hunks' headers."""

    title: str
    files: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    context: tuple[str, ...] = ()

    @cached_property
    def words(self) -> frozenset[str]:
        """Words of the title, the paths and the changed lines."""
        return words_of([self.title, *self.files, *self.removed, *self.added])

    @cached_property
    def heading_words(self) -> frozenset[str]:
        """Words of the title and the paths, as they stand."""
        return frozenset(
            p for part in (self.title, *self.files) for p in re.split(r"[^a-z]+", part.lower()) if p
        )

    @cached_property
    def size(self) -> int:
        """Characters of its diff."""
        return sum(len(x) + 1 for part in (self.removed, self.added, self.context) for x in part)

    @property
    def without_diff(self) -> ChangeText:
        """Title and paths alone."""
        return ChangeText(self.title, self.files, (), ())

    @property
    def has_diff(self) -> bool:
        """Whether there is a diff to read: without one, that nothing matches says nothing."""
        return bool(self.removed or self.added)

    @property
    def brings_an_image(self) -> bool:
        """Whether a container gets another image, whose code no diff of a pod template shows."""
        return any(map(_IMAGE.match, self.removed)) and any(map(_IMAGE.match, self.added))

    @property
    def harmless(self) -> bool:
        """Only documentation, tests, styles or repository housekeeping."""
        return bool(self.files) and all(_HARMLESS_FILES.search(f) for f in self.files)

    @property
    def only_for_other_stages(self) -> bool:
        """Every path is of a stage before production."""
        return bool(self.files) and all(_NOT_PRODUCTION.search(f) for f in self.files)

    @cached_property
    def altered(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The removed and the added lines that say something: without comments, and lines that are
        on both sides."""
        before = Counter(_squeezed(x) for x in self.removed if not _COMMENT.match(x))
        after = Counter(_squeezed(x) for x in self.added if not _COMMENT.match(x))
        gone, new = before - after, after - before
        return tuple(x for x in gone.elements() if x), tuple(x for x in new.elements() if x)

    @property
    def altered_words(self) -> frozenset[str]:
        """Words that only the removed or only the added lines have; of a new version, all words of
        its line."""
        before, after = (
            words_of(x for x in side if not _COMMENT.match(x))
            for side in (self.removed, self.added)
        )
        return before | after if self.changes_versions_only else before ^ after

    @cached_property
    def settings(self) -> frozenset[str]:
        """Names in lower case that are given another value: keys of settings, and variables."""
        before, after = (
            frozenset(k.lower() for x in side for k in _KEY.findall(x)) for side in self.altered
        )
        return before & after

    @property
    def only_comments(self) -> bool:
        """Nothing but comments, blank space or the order of lines differs."""
        return self.has_diff and not any(self.altered)

    @property
    def moves_code_only(self) -> bool:
        """The changed lines, comments aside, keep their literals and most of their words."""
        before, after = _literals(self.removed), _literals(self.added)
        removed, added = _tokens(self.removed), _tokens(self.added)
        if before != after or not removed:
            return False
        count, new = len(removed & added), len(added - removed - _DECLARING)
        if new > MOST_NEW * len(removed):
            return False
        return count >= (MOVED_WITH_LITERALS if len(before) >= 2 else MOVED_ONLY) * len(removed)

    @property
    def changes_versions_only(self) -> bool:
        """Every changed line is a version of a dependency, before and after."""
        before, after = self._versions
        return bool(before) and len(before) == len(after) == len(self.removed) == len(self.added)

    @property
    def patches_dependency(self) -> bool:
        """Only versions change, and only in their last place."""
        before, after = self._versions
        # Major and minor version stay, only the patch differs.
        return (
            bool(before)
            and len(before) == len(after) == len(self.removed)
            and all(a[:2] == b[:2] for a, b in zip(before, after, strict=True))
        )

    @property
    def _versions(self) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
        return _VERSION.findall("\n".join(self.removed)), _VERSION.findall("\n".join(self.added))


def read_change_text(title: str, files: str | None, diff: str | None) -> ChangeText:
    """From the columns of the changes table; `files` is a JSON list or comma separated, `diff` a
    unified diff."""
    removed, added, context = [], [], []
    # Cut before splitting: a diff may be one endless line.
    for line in (diff or "")[: MAX_LINES * MAX_LINE].splitlines()[:MAX_LINES]:
        shown = line[:MAX_LINE]
        # The headers of files look like removed and added lines.
        if shown.startswith(("--- ", "+++ ")) or shown in ("---", "+++"):
            continue
        if shown.startswith("-"):
            removed.append(shown[1:])
        elif shown.startswith("+"):
            added.append(shown[1:])
        elif hunk := _HUNK.match(shown):
            # Behind the `@@` git names the function that the hunk is in.
            context.append(hunk.group(1) or hunk.group(2) or "")
        else:
            context.append(shown)
    return ChangeText(title, _paths(files), tuple(removed), tuple(added), tuple(context))


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Lower-case words of three letters or more, camel case split, without the most common ones."""
    words = {w.lower() for text in texts for w in _WORD.findall(text)}
    return frozenset(_stem(w) for w in words if len(w) >= 3 and w not in _COMMON)


@lru_cache(maxsize=4096)
def service_words(service: str) -> frozenset[str]:
    """The words that name a service, without "service", "svc" and instance numbers."""
    parts = re.split(r"[^A-Za-z]+", service)
    short = {re.sub(r"(?<=...)(service|svc|server|api)$", "", p.lower()) for p in parts}
    named = frozenset(p for p in short if len(p) >= 3)
    # A service that is called nothing but `api` keeps its name.
    return named - _ANY_SERVICE or named


def touches(text: ChangeText, service: str) -> bool:
    """Whether a path or the title names the service."""
    return any(
        word in text.heading_words
        or (len(word) >= LONG_NAME and any(p.startswith(word) for p in text.heading_words))
        for word in service_words(service)
    )


def rarity(changes: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """Inverse document frequency of each word over the changes: a word in every change tells
    nothing."""
    sets = list(changes)
    words = Counter(w for words in sets for w in words)
    return {w: min(RAREST, math.log((len(sets) + 1.0) / (n + 0.5))) for w, n in words.items()}


def relevance(
    change: frozenset[str], symptoms: frozenset[str], weights: Mapping[str, float]
) -> float:
    """In [0, 1): how much of the change's rare words the symptoms repeat."""
    # Sort: the sum of floats depends on their order.
    shared = sum(weights.get(w, 0.0) for w in sorted(change & symptoms))
    return 1.0 - math.exp(-max(0.0, shared) / 5.0)


def _stem(word: str) -> str:
    for ending in ("ization", "ation", "ing", "ies", "ed", "es", "s", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _literals(lines: Iterable[str]) -> frozenset[str]:
    """Numbers, quoted texts and configured values; a status code is often only given its name."""
    matches = {m for line in lines if not _COMMENT.match(line) for m in _LITERAL.findall(line)}
    return frozenset(m for m in matches if not _STATUS_CODE.match(m))


def _tokens(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(
        w for line in lines if not _COMMENT.match(line) for w in re.findall(r"\w+", line)
    )


def _squeezed(line: str) -> str:
    return " ".join(line.split())


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


# Numbers that a change replaces: `timeout: 5s` by `timeout: 300ms`, `replicas 6 -> 2`, with their
# units.

MAX_PAIRED_LINES = 100
"""Lines of each side that are compared with each other; what comes after is left out."""
ALIKE = 0.5
"""Share of words two lines must have in common to be before and after of one value."""

_UNITS = {
    "ns": 1e-9, "nanosecond": 1e-9, "us": 1e-6, "microsecond": 1e-6, "ms": 1e-3,
    "millisecond": 1e-3, "millis": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0, "day": 86400.0,
    "k": 1e3, "kb": 1e3, "ki": 1024.0, "kib": 1024.0, "mb": 1e6, "mi": 1024.0**2, "mib": 1024.0**2,
    "gb": 1e9, "gi": 1024.0**3, "gib": 1024.0**3, "g": 1e9, "%": 0.01,
}  # fmt: skip
_VALUE = re.compile(
    r"(?<![\w.])(\d{1,15}(?:\.\d{1,9})?)\s?(?:\*\s?[a-z. ]{0,14}?)?"
    r"(nanosecond|microsecond|millisecond|millis|second|minute|hour|day|kib|mib|gib|ki|mi|gi|kb|mb"
    r"|gb|ns|us|ms|sec|min"
    r"|s|m|h|d|k|g|%)?s?(?![\w.])"
)
_STEP = re.compile(
    r"(?<![\w.-])(\d{1,12}(?:\.\d{1,6})?\s?[a-z%]{0,3})\s?(?:->|→|=>|\bto\b)\s?(\d{1,12}(?:\.\d{1,"
    r"6})?\s?[a-z%]{0,3})(?![\w.])"
)
_BACK = re.compile(r"\bto (\d{1,12}) from (\d{1,12})\b")
"""As Kubernetes tells it: Scaled down replica set web-5d to 2 from 6."""
_WORDS = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class ValueChange:
    """A value before and after, in base units (seconds, bytes, shares), and the words beside it."""

    words: str
    before: float
    after: float
    lines: int = 1
    """Changed lines it accounts for on each side; 0 where only the title tells it."""

    @property
    def factor(self) -> float:
        """How many times larger the larger one is."""
        low, high = sorted((abs(self.before), abs(self.after)))
        # From zero every change is infinitely large.
        return high / low if low > 0 else float("inf")


def value_changes(
    title: str, removed: Sequence[str], added: Sequence[str]
) -> tuple[ValueChange, ...]:
    """Values that differ between a removed line and the added line most like it, and steps that the
    title tells."""
    return (*_title_changes(title), *_paired(removed[:MAX_PAIRED_LINES], added[:MAX_PAIRED_LINES]))


def _title_changes(title: str) -> Iterator[ValueChange]:
    text = _worded(title[:400])
    # `to 2 from 6` names the new value first.
    for before, after in [*_STEP.findall(text), *((a, b) for b, a in _BACK.findall(text))]:
        value, other = _first_value(before), _first_value(after)
        if value is not None and other is not None and value != other:
            yield ValueChange(text, value, other, lines=0)


def _paired(removed: Sequence[str], added: Sequence[str]) -> Iterator[ValueChange]:
    befores = [
        (line, _key(line), value)
        for line in removed
        if (value := _first_value(_worded(line))) is not None
    ]
    afters = [
        (line, _key(line), value)
        for line in added
        if (value := _first_value(_worded(line))) is not None
    ]
    taken: set[int] = set()
    for line, words, before in befores:
        # Negate the number: of equal likeness, max() then takes the earlier line.
        likeness = [
            ((len(words & other) / max(1, min(len(words), len(other)))), -n)
            for n, (_, other, _) in enumerate(afters)
            if n not in taken
        ]
        top_likeness, n = max(likeness, default=(0.0, 0))
        if top_likeness < ALIKE:
            continue
        taken.add(-n)
        after = afters[-n][2]
        if after != before:
            yield ValueChange(_worded(line), before, after)


def _first_value(line: str) -> float | None:
    match = _VALUE.search(line)
    return float(match.group(1)) * _UNITS.get(match.group(2) or "", 1.0) if match else None


def _key(line: str) -> frozenset[str]:
    return frozenset(w for w in _WORDS.findall(_worded(line)) if w not in _UNITS)


def _worded(line: str) -> str:
    return _CAMEL.sub(" ", line).replace("_", " ").lower()
