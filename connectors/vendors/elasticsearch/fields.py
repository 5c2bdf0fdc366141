"""Which fields of the indices hold what, as their mappings have it (`_field_caps`).

Names are those of the Elastic Common Schema, of OpenTelemetry as Elastic's exporter and
OpenSearch's Data Prepper write it, and of Fluent Bit's Kubernetes filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from faultline.analysis.case.alert_place import namespace_of, place_of
from faultline.analysis.vocabulary import Alert

TIMES = ("@timestamp", "time", "timestamp")
SERVICES = (
    "service.name",
    "resource.attributes.service.name",
    "resource.attributes.service@name",
    "serviceName",
    "service_name",
    "kubernetes.container.name",
    "kubernetes.container_name",
    "kubernetes.labels.app",
    "app",
)
LEVELS = (
    "log.level",
    "severity_text",
    "severityText",
    "severity.text",
    "level",
    "severity",
)
MESSAGES = ("message", "body.text", "body", "log")
TRACES = ("trace.id", "trace_id", "traceId")
PLACES: Mapping[str, tuple[str, ...]] = {
    "environment": (
        "service.environment",
        "deployment.environment.name",
        "deployment.environment",
        "resource.attributes.deployment.environment.name",
        "resource.attributes.deployment.environment",
    ),
    "cluster": (
        "orchestrator.cluster.name",
        "k8s.cluster.name",
        "resource.attributes.k8s.cluster.name",
    ),
    "region": ("cloud.region", "resource.attributes.cloud.region"),
    "namespace": (
        "kubernetes.namespace",
        "kubernetes.namespace_name",
        "k8s.namespace.name",
        "resource.attributes.k8s.namespace.name",
    ),
}
"""Fields of the places that an alert may name."""
EXACT = frozenset({"keyword", "constant_keyword", "wildcard"})
DATES = frozenset({"date", "date_nanos"})


class FieldType(msgspec.Struct):
    aggregatable: bool = False
    searchable: bool = False


class FieldsAnswer(msgspec.Struct):
    """The answer of `_field_caps`: each field's types; the indices are a name or a list."""

    fields: dict[str, dict[str, FieldType]]
    indices: list[str] | str = []

    @property
    def index_count(self) -> int:
        """How many indices were looked at."""
        return 1 if isinstance(self.indices, str) else len(self.indices)


@dataclass(frozen=True)
class FieldNames:
    """Names to look for, in order: those of the settings, or the usual ones."""

    times: tuple[str, ...] = TIMES
    services: tuple[str, ...] = SERVICES
    levels: tuple[str, ...] = LEVELS
    messages: tuple[str, ...] = MESSAGES

    def caps_names(self) -> str:
        """The names for `_field_caps`, each text field with its exact part."""
        places = (name for names in PLACES.values() for name in names)
        plain = (*self.times, *self.services, *self.levels, *self.messages, *TRACES, *places)
        # A text field cannot be matched as a whole; its `.keyword` can.
        exact = tuple(f"{name}.keyword" for name in (*self.services, *self.levels))
        return ",".join(dict.fromkeys((*plain, *exact)))


@dataclass(frozen=True)
class LogFields:
    """The fields that are there. Those of services, level and places can be matched exactly."""

    time: str
    services: tuple[str, ...]
    level: str | None
    messages: tuple[str, ...]
    places: Mapping[str, str]

    def bounds(self, alert: Alert) -> list[dict[str, str]]:
        """The alert's place as values by field, the narrowest first and anywhere last."""
        place, namespace = place_of(alert), namespace_of(alert)
        wide = {self.places[kind]: place[kind] for kind in place if kind in self.places}
        bounds: list[dict[str, str]] = [wide, {}] if wide else [{}]
        if namespace and "namespace" in self.places:
            bounds.insert(0, {**wide, self.places["namespace"]: namespace})
        return bounds

    @classmethod
    def of(cls, answer: FieldsAnswer, field_names: FieldNames) -> LogFields | None:
        """None where no field holds a time."""
        there = answer.fields
        times = [name for name in field_names.times if DATES & set(there.get(name, ()))]
        if not times:
            return None
        levels = _exact(field_names.levels, there)
        places: dict[str, str] = {}
        for kind, names in PLACES.items():
            for name in _exact(names, there)[:1]:
                places[kind] = name
        return cls(
            times[0],
            tuple(_exact(field_names.services, there)),
            levels[0] if levels else None,
            tuple(name for name in field_names.messages if name in there),
            places,
        )


def _exact(names: Iterable[str], there: Mapping[str, Mapping[str, FieldType]]) -> list[str]:
    """The fields that can be matched and counted as a whole, or their parts that can."""
    exact_names = []
    for name in names:
        for field_name in (name, f"{name}.keyword"):
            types = there.get(field_name, {})
            # Indices may map one field differently, so it must be countable in all of them.
            if EXACT & set(types) and all(field_type.aggregatable for field_type in types.values()):
                exact_names.append(field_name)
                break
    return exact_names
