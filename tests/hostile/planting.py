"""A secret in every text of a vendor's answer or of a webhook, whatever its form."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from typing import Any

SECRET = "Zq77kT7vWm4xLp9R"
PLANTED = f" db_password={SECRET}"
LONGEST = 2_000
_PROSE = re.compile(r"(?![\d{])[^=]*[A-Za-z]+ +[A-Za-z]")
"""Words of a language: no time, number, name or query."""
_TEXT_KEYS = frozenset(
    {"author", "body", "comment", "createdBy", "description", "detail", "error", "errorMessage"}
    | {"excerpt", "message", "note", "reason", "summary", "text", "title"}
)
"""Fields that hold somebody's text though it may be one word."""
_TIME_KEYS = frozenset({"date", "time"})


def planted(value: Any, more_keys: Set[str] = frozenset(), key: str = "") -> Any:
    """A JSON value with the secret behind every text in it, JSON inside JSON too. `more_keys` are
    further fields that hold text."""
    if isinstance(value, dict):
        return {name: planted(one, more_keys, name) for name, one in value.items()}
    if isinstance(value, list):
        return [planted(one, more_keys, key) for one in value]
    if not isinstance(value, str) or len(value) > LONGEST or key in _TIME_KEYS:
        return value
    if _is_json(value.encode()):
        return planted_bytes(value.encode(), more_keys).decode()
    is_word = key in _TEXT_KEYS | more_keys and value[:1].isalpha() and "://" not in value
    return value + PLANTED if is_word or _PROSE.match(value) else value


def planted_bytes(body: bytes, more_keys: Set[str] = frozenset()) -> bytes:
    """The same of JSON, and of lines that are JSON each. Anything else stays."""
    made = []
    for one in [body] if _is_json(body) else body.split(b"\n"):
        if _is_json(one):
            made.append(json.dumps(planted(json.loads(one), more_keys)).encode())
        else:
            made.append(one)
    return b"\n".join(made)


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), (dict, list))
    except ValueError:
        return False
