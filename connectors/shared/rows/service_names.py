"""What a vendor calls a service: our name for it, or one of its aliases in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from faultline.connectors.shared.contract.base import Request
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

# Split camel case, too: CheckoutApi names the service checkout-api.
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


class ServiceNames:
    """Our names of services and theirs. `aliases` by our name."""

    def __init__(self, aliases: Mapping[str, Sequence[str]] | None = None) -> None:
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._ours: dict[str, str] = {}
        for ours, names in (aliases or {}).items():
            self._aliases[ours] = tuple(names)
            for name in (*names, ours):
                self._ours[name.casefold()] = ours

    @classmethod
    def of_catalogue(cls, services: Mapping[str, ServiceSettings]) -> ServiceNames:
        """Of the settings' service catalogue."""
        return cls({name: entry.aliases for name, entry in services.items()})

    @property
    def services(self) -> tuple[str, ...]:
        """Our names of the services in the catalogue."""
        return tuple(self._aliases)

    def theirs(self, service: str) -> tuple[str, ...]:
        """Every name the service may have, our own first."""
        aliases = self._aliases.get(service, ())
        return tuple(dict.fromkeys((service, *aliases)))

    def ours(self, name: str) -> str:
        """Our name of a service; the given one where the catalogue has none."""
        return self._ours.get(name.casefold(), name)

    def matches(self, service: str, candidates: Iterable[str]) -> tuple[str, ...]:
        """Those of the known names that mean the service, in whatever case they are written."""
        names = {name.casefold() for name in self.theirs(service)}
        return tuple(name for name in candidates if name.casefold() in names)


def named_service(text: str, candidates: Mapping[str, Iterable[str]]) -> str | None:
    """Our name of the service that a text names as whole words; of several that with the longest
    name. `candidates`: the names that count for a service, by our own."""
    words = _spaced_words(text)
    services_by_name: dict[str, str] = {}
    for service, names in candidates.items():
        for name in names:
            spaced = _spaced_words(name)
            if spaced.strip() and spaced in words:
                # Two services may share a name: the first one wins, in every run.
                services_by_name.setdefault(spaced, service)
    return services_by_name[max(services_by_name, key=len)] if services_by_name else None


def _spaced_words(text: str) -> str:
    """The words with a space before and after each, so that one is found only as a whole."""
    return f" {' '.join(_WORD.findall(text)).lower()} "


def in_scope(request: Request, most: int) -> tuple[list[str], int]:
    """Our names of the services to ask about, at most that many, and how many more there are.

    The alert's own service comes first.
    """
    services: list[str] = []
    for service in (request.alert.service, *request.scope.services):
        if service and service not in services:
            services.append(service)
    left_out = max(0, len(services) - most)
    return services[:most], left_out
