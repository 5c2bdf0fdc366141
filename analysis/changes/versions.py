"""What was in effect before a change and what after it, read from a title where its source has no
fields for that."""

from __future__ import annotations

import re
from typing import NamedTuple

VERSION = re.compile(r"\bv?\d+(?:\.\d+){1,3}(?:-[\w.]+)?(?![\w.])")
_TOKEN = r"[\w./:@+-]{1,200}"  # noqa: S105
_STEPS = (
    re.compile(rf"({_TOKEN})\s*(?:->|→|=>)\s*({_TOKEN})"),
    re.compile(rf"\bfrom ({_TOKEN}) to ({_TOKEN})", re.IGNORECASE),
)
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}")
_NUMBER = re.compile(r"\d{1,7}")


class Step(NamedTuple):
    """Versions of a deploy, replicas of a scaling, values of a flag; "" where one is not known."""

    before: str = ""
    after: str = ""


UNKNOWN = Step()
_RELEASE = re.compile(
    r"^(?:deploy|release|roll ?out)\w*(?: of)? [\w./-]{1,80} (v?\d{1,6})(?=$|[:,;(])", re.IGNORECASE
)
"""`Deploy cart 9: use the new schema`."""


def step_in(kind: str, title: str) -> Step:
    """What a title says of both sides: `image cart:2.1.0 -> cart:2.2.0`, `from 3 to 1`, `v1.8`."""
    for pattern in _STEPS:
        for match in pattern.finditer(title):
            before, after = tag_of(match[1]), tag_of(match[2])
            if _names_a_state(kind, before) and _names_a_state(kind, after):
                return Step(before, after)
    version, release = VERSION.search(title), _RELEASE.match(title)
    if version is None and release is not None:
        return Step("", release[1])
    return Step("", version[0] if version else "")


def tag_of(image: str) -> str:
    """The tag of an image, or the text itself where it is none; a digest in its short form."""
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    tag = last.rpartition(":")[2] if ":" in last else ""
    if not tag and digest:
        return digest.rpartition(":")[2][:12]
    return (tag or last).rstrip(".,;:)")


def _names_a_state(kind: str, text: str) -> bool:
    if kind == "scale":
        return _NUMBER.fullmatch(text) is not None
    return VERSION.fullmatch(text) is not None or _HASH.fullmatch(text) is not None
