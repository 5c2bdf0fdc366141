"""Services: the catalogue of the settings, which names mean which service and who calls whom, whose
an alert is, and which service a question means. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from faultline.bot.settings import Settings
from faultline.bot.settings.people import owners


def catalogue_name(service: str | None, settings: Settings) -> str | None:
    """The catalogue's name for what an alert calls a service; the alert's own word when the
    catalogue has none."""
    if service is None:
        return None
    requested_service = service.casefold()
    for name, entry in settings.services.items():
        if requested_service in {
            n.casefold() for n in (name, entry.pagerduty_service, *entry.aliases) if n
        }:
            return name
    return service


def catalogue_calls(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Who calls whom by the catalogue, as (caller, callee)."""
    pairs = {
        (name, catalogue_name(other, settings) or other)
        for name, e in settings.services.items()
        for other in e.depends_on
    }
    return tuple(sorted(pairs))


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

    def with_calls(self, calls: Iterable[tuple[str, str]]) -> ServiceTopology:
        """The same with more calls, as (caller, callee) by any of their names."""
        callees = defaultdict(set, {name: set(called) for name, called in self.callees.items()})
        callers = defaultdict(set, {name: set(calling) for name, calling in self.callers.items()})
        for pair in calls:
            caller, callee = (self.name(service) for service in pair)
            # Who the catalogue says is called does not call back by what was learned.
            if caller and callee and caller != callee and caller not in self.called_by(callee):
                callees[caller].add(callee)
                callers[callee].add(caller)
        return ServiceTopology(self.names, _frozen(callees), _frozen(callers))

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


NO_TEAM = ""


@dataclass(frozen=True)
class Teams:
    """Teams by service and by channel, in lower case, and each team's share."""

    services: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, topology: ServiceTopology | None = None) -> Teams:
        """The settings'."""
        names = (topology or ServiceTopology.of(settings)).names
        services = {thing: team for thing, _, team in owners(settings.teams, "services", names)}
        channels = {thing: team for thing, _, team in owners(settings.teams, "channels")}
        return cls(services, channels, {name: team.share for name, team in settings.teams.items()})

    def team(self, service: str | None, channel: str) -> str:
        """The team's name; "" for what belongs to none. `service` as the catalogue calls it."""
        of_service = self.services.get(service.casefold()) if service else None
        return of_service or self.channels.get(channel.casefold(), NO_TEAM)

    def share(self, team: str) -> float:
        """Its weight; 1 for what belongs to none, or to a team that is not in the settings any
        more."""
        return self.shares.get(team, 1.0)


LONGEST_NAME = 3
"""Words of a name that is written apart: "product catalog service"."""
LEAST_STEM, LEAST_PART = 3, 4
"""Letters of a word that stands for a longer name."""
MOST_TEXT, MOST_NAMES = 2_000, 5_000
_WORD = re.compile(r"[a-z0-9]+(?:[-_./:][a-z0-9]+)*")
_GLUE = re.compile(r"[\W_]+")
_END = re.compile(r"(?:service|svc|server|api|app|deployment)$")
_ORDINARY_WORDS = """
the is are was were be been it its this that a an and or not of in on at to from since for with all
some any our my we i you by what which who when where why how do does did has have can could again
now there here something anything everything down up slow fast high low app job jobs service
services system cluster production prod error errors fail fails failing failed broken crash crashing
timeout timeouts request requests latency cpu memory ram disk network gpu gpus database db cache
queue traffic load deploy deployment release training
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
"""Words that are no name alone, though something may be called so."""


def service_in(text: str, service_names: Iterable[str]) -> str | None:
    """The service: by its whole name, by the name without its ending ("checkout" for
    checkoutservice), or by a part that only one name has. None where that could be several."""
    names = dict.fromkeys(islice(service_names, MOST_NAMES))
    phrases = set(_phrases(text))
    for forms in (_whole, _stem, _parts):
        counts = {name: len(form) for name in names for form in forms(name) if form in phrases}
        longest = [name for name in counts if counts[name] == max(counts.values())]
        # A whole name is certain, even where two are equally long.
        if len(longest) == 1 or (longest and forms is _whole):
            return longest[0]
    return None


def _phrases(text: str) -> Iterator[str]:
    """The words, alone and up to three in a row, also without an ending."""
    words = _WORD.findall(text[:MOST_TEXT].casefold())
    for start, first in enumerate(words):
        if first in _ORDINARY:
            continue
        for end in range(start, min(start + LONGEST_NAME, len(words))):
            row = _GLUE.sub("", "".join(words[start : end + 1]))
            yield row
            yield _END.sub("", row)


def _whole(name: str) -> list[str]:
    return [_GLUE.sub("", name.casefold())]


def _stem(name: str) -> list[str]:
    stem = _END.sub("", _whole(name)[0])
    return [stem] if len(stem) >= LEAST_STEM else []


def _parts(name: str) -> list[str]:
    return [part for part in _GLUE.split(name.casefold()) if len(part) >= LEAST_PART]
