"""The catalogue as storms need it: which names mean which service, and who calls whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from faultline.bot.settings import Settings

Calls = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class ServiceTopology:
    """Catalogue names by every name of a service in lower case; callees and callers by catalogue
    name."""

    names: Mapping[str, str] = field(default_factory=dict)
    callees: Calls = field(default_factory=dict)
    callers: Calls = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> ServiceTopology:
        """The catalogue's. Of two services that claim a name, the first in the file has it."""
        names: dict[str, str] = {}
        for name, entry in settings.services.items():
            for word in (name, entry.pagerduty_service, *entry.aliases):
                if word:
                    names.setdefault(word.casefold(), name)
        callees, callers = defaultdict(set), defaultdict(set)
        for name, entry in settings.services.items():
            for other in entry.depends_on:
                callee = names.get(other.casefold(), other)
                if callee != name:
                    callees[name].add(callee)
                    callers[callee].add(name)
        return cls(names, _frozen(callees), _frozen(callers))

    def name(self, service: str | None) -> str | None:
        """The catalogue's name for what an alert calls a service; the alert's own word when it has
        none."""
        if not service or not service.strip():
            return None
        return self.names.get(service.strip().casefold(), service.strip())

    def called_by(self, service: str) -> frozenset[str]:
        """What the service calls."""
        return self.callees.get(service, frozenset())

    def callers_of(self, service: str) -> frozenset[str]:
        """What calls the service."""
        return self.callers.get(service, frozenset())


def _frozen(calls: Mapping[str, set[str]]) -> Calls:
    return {name: frozenset(call) for name, call in calls.items()}
