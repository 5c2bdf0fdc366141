"""Where an alert is, under whatever names vendors give to an environment, a cluster, a region.

A service of one name often runs in several of them; added up, one's trouble is hidden by the
others' health. Zones, nodes and pods do not bound what is asked: their trouble may come from
elsewhere, and they are compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from faultline.analysis.kinds.place_names import NAMESPACE_LABELS, PLACE_LABELS, place_in
from faultline.analysis.vocabulary import Alert


def place_of(alert: Alert) -> dict[str, str]:
    """Environment, cluster and region of the alert; only those that its labels or its rule fix."""
    labels = dict(alert.labels)
    if alert.watches is not None:
        labels |= alert.watches.place
    return place_in(labels)


def namespace_of(alert: Alert) -> str:
    """The namespace that the alert's labels or its rule fix; "" without one."""
    labels = dict(alert.labels)
    if alert.watches is not None:
        labels |= alert.watches.place
    return next((labels[label] for label in NAMESPACE_LABELS if labels.get(label)), "")


def place_labels(place: Mapping[str, str], source_labels: Iterable[str]) -> dict[str, str]:
    """The same place in those of its labels that a source knows, with their values."""
    there = frozenset(source_labels)
    values_by_label = {}
    for kind, value in place.items():
        for label in PLACE_LABELS.get(kind, ()):
            if label in there:
                values_by_label[label] = value
                break
    return values_by_label


def bounds_of(alert: Alert, source_labels: Iterable[str]) -> list[dict[str, str]]:
    """The alert's place in the labels of a source, the narrowest first: with its namespace, without
    it, and anywhere. What a service has in the first of them is all that counts of it."""
    there = frozenset(source_labels)
    here = place_labels(place_of(alert), there)
    bounds = [here, {}] if here else [{}]
    label = next((label for label in NAMESPACE_LABELS if label in there), None)
    namespace = namespace_of(alert)
    if namespace and label is not None:
        bounds.insert(0, {**here, label: namespace})
    return bounds


def lies_elsewhere(labels: Mapping[str, str], place: Mapping[str, str]) -> bool:
    """Whether labels name another environment, cluster or region than this place."""
    if not place or not labels:
        return False
    other_place = place_in(labels)
    return any(other_place.get(kind, value) != value for kind, value in place.items())
