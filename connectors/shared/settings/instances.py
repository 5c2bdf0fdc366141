"""Which of several servers of a vendor a table of the settings is, and what that server knows:
`name = "eu"` and `covers = { cluster = "prod-eu" }` of a `[[prometheus]]`.

What it covers decides whether the server is asked about an alert, and about which services.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from faultline.analysis.kinds.place_names import same_place_labels
from faultline.analysis.vocabulary import Alert, Scope

SERVICES = "services"
"""The key of `covers` that names services; every other is a label."""


@dataclass(frozen=True)
class Covers:
    """Names and values may hold `*`."""

    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each label that this server knows."""
    services: tuple[str, ...] = ()
    """Empty: all services."""

    @classmethod
    def of(cls, table: Mapping[str, tuple[str, ...]]) -> Covers:
        """From the table of the settings."""
        places: dict[str, tuple[str, ...]] = {}
        for label, values in table.items():
            if label != SERVICES:
                places[label] = values
        return cls(places, table.get(SERVICES, ()))

    def objection(self, alert: Alert, scope: Scope) -> str | None:
        """Why this server cannot know the alert; None where it may.

        An alert that does not carry a label says nothing about it.
        """
        for label, place in self.places.items():
            # Tools call one place by different labels.
            names = same_place_labels(label)
            label_values = [alert.labels[name] for name in names if alert.labels.get(name)]
            if label_values and not any(_fits(value, place) for value in label_values):
                there = " or ".join(place)
                return f"covers {label} {there}, and the alert says {label_values[0]}"
        if scope.services and not self.narrowed(scope).services:
            return f"covers none of the services asked about ({', '.join(scope.services[:3])})"
        return None

    def narrowed(self, scope: Scope) -> Scope:
        """The scope with the services that this server knows."""
        if not self.services:
            return scope
        services = tuple(name for name in scope.services if self.knows(name))
        return scope.model_copy(update={"services": services})

    def knows(self, service: str) -> bool:
        """Whether it covers a service."""
        return not self.services or _fits(service, self.services)

    def agrees(self, other: Covers) -> bool:
        """Whether both could be about one place."""
        for label, place in self.places.items():
            # A label that the other one does not name cannot contradict.
            theirs = other.places.get(label, place)
            if not any(_fits(value, place) for value in theirs):
                return False
        return True

    def single_places(self) -> dict[str, str]:
        """The labels with a single covered value: that is where its rows belong."""
        single_places: dict[str, str] = {}
        for label, values in self.places.items():
            if len(values) == 1 and "*" not in values[0]:
                single_places[label] = values[0]
        return single_places

    def added_to(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Labels with the places that they do not name themselves."""
        placed = dict(labels)
        for label, value in self.single_places().items():
            if not any(labels.get(name) for name in same_place_labels(label)):
                placed[label] = value
        return placed


@dataclass(frozen=True)
class Instance:
    """Which one of `[[prometheus]]` a table is. A single `[prometheus]` has no name and covers
    everything."""

    name: str = ""
    covers: Covers = Covers()


def _fits(value: str, patterns: tuple[str, ...]) -> bool:
    folded = value.casefold()
    return any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns)
