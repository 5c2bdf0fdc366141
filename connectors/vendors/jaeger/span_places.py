"""Where the spans of a service say that they are from, in tags that Jaeger can be searched for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from faultline.analysis.case.alert_place import bounds_of
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.rows.collection_builder import SpanTableRow


def place_tags(rows: Iterable[SpanTableRow], service: str, alert: Alert) -> list[dict[str, str]]:
    """The alert's place in the tags of the service's spans, the narrowest first; none where no span
    says to be from another place. Jaeger has no list of tags, so those of a sample tell."""
    samples: list[dict[str, str]] = []
    for row in rows:
        if row.service == service and row.attributes:
            samples.append(msgspec.json.decode(row.attributes, type=dict[str, str]))
    there = frozenset(name for tags in samples for name in tags)
    bounds = []
    for place in bounds_of(alert, there):
        if any(tags.get(name, value) != value for tags in samples for name, value in place.items()):
            bounds.append(place)
    return bounds
