"""The labels of a series, as the metrics table keeps them: a JSON object in text."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


def labels_of(text: str) -> Mapping[str, str]:
    """A series' labels by name; none where the text is no JSON object."""
    if not text.startswith("{"):
        return {}
    try:
        labels = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    if not isinstance(labels, dict):
        return {}
    return {name: value for name, value in labels.items() if isinstance(value, str)}
