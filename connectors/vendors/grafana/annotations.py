"""Annotations of Grafana: what their texts and tags say."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

import msgspec

from faultline.connectors.shared.vendor_text import short

KINDS = (
    ("migration", "migrat"),
    ("flag", "flag|toggle"),
    ("scale", "scal"),
    ("config", "config|setting"),
    ("deploy", "deploy|release|rollback|roll-back|ship"),
)
"""Kinds of change, by words of an annotation's tags."""
_TAG = re.compile(r"<[^<>]{0,500}>")


class Annotation(msgspec.Struct):
    """A note at a time, or a change of an alert's state; times in ms."""

    id: int = 0
    time: int | None = None
    alertId: int = 0
    alertName: str | None = None
    newState: str | None = None
    prevState: str | None = None
    text: str | None = None
    tags: list[str] | None = None
    login: str | None = None
    dashboardUID: str | None = None
    panelId: int = 0


def plain_text(text: str | None) -> str:
    """The text of an annotation, which may be HTML, in one line."""
    # Tags go before entities are read, or an escaped `<` would begin a tag.
    return short(html.unescape(_TAG.sub(" ", (text or "")[:4000])), 300)


def labels_of_tags(tags: Iterable[str] | None) -> dict[str, str]:
    """Tags of the form `service:checkout`, as labels."""
    parts = [tag.partition(":") for tag in tags or () if isinstance(tag, str)]
    return {
        name.strip().lower(): value.strip() for name, mark, value in parts if mark and value.strip()
    }


def labels_in_text(text: str) -> dict[str, str]:
    """The labels that the text of a change of state quotes: `Name {service=checkout, ...} -
    Alerting`."""
    inside = text.partition(" {")[2].partition("}")[0]
    parts = [part.partition("=") for part in inside.split(",")]
    return {name.strip(): value.strip() for name, mark, value in parts if mark and value.strip()}


def kind_of_change(tags: Sequence[str]) -> str:
    """The kind of change that tags name; a deploy where they name none."""
    tag_text = " ".join(tags)[:1000].lower()
    return next((kind for kind, words in KINDS if re.search(words, tag_text)), "deploy")
