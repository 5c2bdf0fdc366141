"""Where the spans of a service say that they are from, in tags that Jaeger can be searched for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from faultline.analysis.kinds.place_names import PLACE_LABELS
from faultline.connectors.shared.rows.collection_builder import SpanTableRow


def place_tags(
    rows: Iterable[SpanTableRow], service: str, place: Mapping[str, str]
) -> dict[str, str]:
    """The alert's place in the tags of the service's spans; empty where none of them says to be
    from another place.

    `place` has the names of `PLACE_LABELS`. Jaeger has no list of tags, so those of a sample tell.
    """
    if not place:
        return {}
    tags: dict[str, str] = {}
    is_mixed = False
    for row in rows:
        if row.service != service or not row.attributes:
            continue
        row_tags = msgspec.json.decode(row.attributes, type=dict[str, str])
        for kind, value in place.items():
            name = next((label for label in PLACE_LABELS[kind] if label in row_tags), None)
            if name is not None:
                tags[name] = value
                is_mixed = is_mixed or row_tags[name] != value
    return tags if is_mixed else {}
