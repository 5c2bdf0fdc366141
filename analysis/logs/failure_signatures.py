"""Known failures as logs show them: the entries of failure_signatures.toml, read and checked.

Every pattern is bounded: no repetition without an upper end, at most `LINE_LIMIT` characters of a
line, so that the work on a line is bounded whatever it holds. `signature_matching` finds them in
lines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from faultline.analysis.errors import EvidenceError

FILE = Path(__file__).with_name("failure_signatures.toml")
LINE_LIMIT = 2_000
"""Characters of a line that are looked at; what failed stands at its beginning."""
MAX_SIGNATURES = 1_000

Kind = Literal[
    "hardware",
    "timeout",
    "network",
    "memory",
    "crash",
    "numbers",
    "data",
    "code",
    "scheduling",
    "storage",
    "limits",
    "containers",
    "tls",
    "names",
    "throttling",
    "locks",
    "database",
    "messaging",
    "coordination",
    "clock",
    "credentials",
    "connections",
]
"""`timeout` is a collective's, `network` a connection or link that broke, `connections` one that
cannot be made."""
Accused = Literal["rank", "gpu", "host", "service", "nobody"]

_TEXTS = ("name", "kind", "accuses", "pattern", "meaning", "action", "source")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,60}")


@dataclass(frozen=True)
class Signature:
    """A failure as logs write it."""

    name: str
    kind: Kind
    words: tuple[str, ...]
    """In lower case; one of them must be in the line, in any case."""
    regex: str
    meaning: str
    """A clause: "the disk is full"."""
    action: str
    source: str
    accuses: Accused = "service"
    weight: float = 0.9
    """How far it speaks as a cause at full strength, of 1."""
    symptom: bool = False
    """It follows as often from what another service or rank did."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.regex, re.ASCII)


def read_signatures(file: Path = FILE) -> tuple[Signature, ...]:
    """The entries in their order: the first that matches is a line's. Raises EvidenceError naming
    the entry."""
    rows = read_toml(file).get("signature")
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_SIGNATURES:
        raise EvidenceError(file.name, f"must hold 1 to {MAX_SIGNATURES} tables [[signature]]")
    signatures: dict[str, Signature] = {}
    for number, row in enumerate(rows, start=1):
        signature = _signature(file.name, f"signature {number}", row)
        if signature.name in signatures:
            raise EvidenceError(
                file.name, f"{signature.name} is there twice", f"signature {number}"
            )
        signatures[signature.name] = signature
    return tuple(signatures.values())


def read_toml(file: Path) -> dict[str, Any]:
    """The file's tables. Raises EvidenceError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(file.name, f"is not readable TOML ({error})") from error


def _signature(file: str, where: str, row: Any) -> Signature:
    if not isinstance(row, Mapping):
        raise EvidenceError(file, "is not a table", where)
    where = f"{where} ({row.get('name', 'without a name')})"
    # A misspelt key would otherwise be ignored, and its default used instead.
    unknown = sorted(set(row) - {*_TEXTS, "words", "weight", "symptom"})
    if unknown:
        raise EvidenceError(file, f"unknown key {unknown[0]}", where)
    texts = {key: row.get(key) for key in _TEXTS}
    empty = next(
        (key for key, value in texts.items() if not isinstance(value, str) or not value.strip()),
        None,
    )
    if empty is not None:
        raise EvidenceError(file, f"{empty} must be a text", where)
    for key, allowed in (("kind", get_args(Kind)), ("accuses", get_args(Accused))):
        if texts[key] not in allowed:
            raise EvidenceError(file, f"{key} must be one of {', '.join(allowed)}", where)
    if not _NAME.fullmatch(str(texts["name"])):
        raise EvidenceError(file, "name must be lower case, digits and _", where)
    regex = texts.pop("pattern")
    signature = Signature(
        **texts,  # type: ignore[arg-type]
        regex=str(regex),
        words=_words(file, where, row.get("words")),
        weight=_weight(file, where, row.get("weight")),
        symptom=row.get("symptom", False) is True,
    )
    # Compile at reading: a bad pattern must stop the start, not an investigation.
    try:
        re.compile(signature.regex, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise EvidenceError(file, f"pattern is no regular expression ({error})", where) from error
    return signature


def _words(file: str, where: str, words: Any) -> tuple[str, ...]:
    good = (
        isinstance(words, list)
        and words
        and all(isinstance(w, str) and w and w == w.lower() for w in words)
    )
    # The search for words ignores case in ASCII only, so they must be lower-case ASCII.
    if not good or not all(w.isascii() for w in words):
        raise EvidenceError(file, "words must be a list of texts in lower-case ASCII", where)
    return tuple(words)


def _weight(file: str, where: str, weight: Any) -> float:
    # In Python a bool is an int: `weight = true` is a mistake.
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
        raise EvidenceError(file, "weight must be a number from 0 to 1", where)
    return float(weight)


SIGNATURES = read_signatures()
