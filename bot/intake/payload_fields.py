"""Fields of vendors' payloads that never fail: what is missing or of the wrong type is empty.

A vendor that changes one field must not cost us the alert; and its text is hostile: control
characters, lone surrogates and direction overrides are removed, lengths are cut.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict

SHORT = 300
LONG = 4_000
MAX_LABELS = 64
MAX_ROWS = 2_000
MAX_URL = 4_096
LARGEST_NUMBER = 1e300
"""What is larger can become infinite in the next calculation."""
# Control characters except tab, LF and CR, direction marks, lone surrogates and the BOM.
_REMOVED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_UNFIT_FOR_URLS = re.compile(r"[\s<>\"'`|\\^{}]")

T = TypeVar("T")


class Payload(BaseModel):
    """A part of a vendor's payload: unknown fields are ignored, every known one has a default."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def plain(value: Any, limit: int = LONG) -> str:
    """Text without control characters, at most `limit` characters; "" for what is not text or a
    number."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    # Cut before cleaning, which is slow for megabytes, but leave room for what is removed.
    text = _REMOVED.sub("", str(value)[: 4 * limit]).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def single_line(value: Any, limit: int = SHORT) -> str:
    """As `plain`, on one line."""
    return plain(" ".join(plain(value, limit).split()), limit)


def as_url(value: Any) -> str:
    """An http(s) address without credentials; "" for anything else."""
    if not isinstance(value, str) or len(value) > MAX_URL:
        return ""
    if _UNFIT_FOR_URLS.search(value) or _REMOVED.search(value):
        return ""
    try:
        parts = urlsplit(value)
    except ValueError:
        return ""
    # Refuse credentials: `https://bank.example@evil.example` disguises its host.
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        return ""
    return value


def as_time(value: Any) -> datetime | None:
    """A time in UTC from ISO 8601 (without zone: UTC); None for what is none or lies outside
    2000-2100."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return in_utc(time)


def in_utc(time: datetime) -> datetime | None:
    """The time in UTC, or None outside 2000-2100: Go's zero time, and years that would overflow a
    window."""
    if not 2000 <= time.year < 2100:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def as_labels(value: Any, limit: int = SHORT) -> dict[str, str]:
    """Name to text, at most 64 of them; values that are not text or numbers are left out."""
    if not isinstance(value, dict):
        return {}
    labels: dict[str, str] = {}
    for raw_name, raw_text in list(value.items())[:MAX_LABELS]:
        name, text = single_line(raw_name, 128), plain(raw_text, limit)
        if name and text:
            labels[name] = text
    return labels


_TEST = re.compile(
    r"(?i)^\W*(?:test (?:notification|message|event|incident|webhook|connection|page)|testalert"
    r"|this is (?:just |only )?a test(?: \w{1,20})?|i am a test(?: \w{1,20})?)(?=$|[.!:,-])"
    r"|^\[test\]|for demonstration purposes|\bchannel test$|\bnotification test run\b"
    r"|\btesting (?:the|an|your) (?:\w{1,20} )?(?:notification|integration|webhook|channel)s?\b"
)
"""What vendors' test buttons write. A bare "test alert" is not among it: people send those to see
an investigation."""


def is_test_text(text: str) -> bool:
    """Whether a vendor's test button wrote the title or a line of the description."""
    return any(_TEST.search(line) for line in text[:2_000].splitlines())


def filled(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that say something."""
    return {name: value for name, value in labels.items() if value}


def as_table(value: Any) -> Any:
    """The object itself (or a parsed one); an empty one for anything else."""
    return value if isinstance(value, (dict, BaseModel)) else {}


def as_rows(value: Any, most: int = MAX_ROWS) -> list[Any]:
    """The objects among the first `most` of a list."""
    if not isinstance(value, list):
        return []
    return [row for row in value[:most] if isinstance(row, dict)]


def number_in(text: str) -> float | None:
    """The number that a text is; None for anything else, and for what is not finite."""
    try:
        value = float(text[:40])
    except ValueError:
        return None
    return value if abs(value) < LARGEST_NUMBER else None


def digest_of(*parts: str) -> str:
    """The identity that several texts make together, in hexadecimal digits."""
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in a UTF-8 body, or None when there is none that can be read."""
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def form_payload(body: bytes) -> dict[str, Any] | None:
    """The JSON object in the field `payload` of a URL-encoded form, or None when there is none that
    can be read."""
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=MAX_LABELS)
    except ValueError:
        return None
    return json_object(fields.get("payload", [""])[0].encode("utf-8", "replace"))


def _text(clean: Callable[[Any], str]) -> Any:
    return BeforeValidator(clean)


Line = Annotated[str, _text(single_line)]
Text = Annotated[str, _text(partial(plain, limit=LONG))]
Address = Annotated[str, _text(as_url)]
When = Annotated[datetime | None, BeforeValidator(as_time)]
Labels = Annotated[dict[str, str], BeforeValidator(as_labels)]
Annotations = Annotated[dict[str, str], BeforeValidator(partial(as_labels, limit=LONG))]
Table = Annotated[T, BeforeValidator(as_table)]
Rows = Annotated[tuple[T, ...], BeforeValidator(as_rows)]
