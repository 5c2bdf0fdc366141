"""What services are called by systems that know them by a label: our name, or one of its aliases in
the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from connectors.base import Request


class CatalogueEntry(Protocol):
    """A service of the catalogue."""

    @property
    def aliases(self) -> Sequence[str]: ...


class ServiceNames:
    """Our names of services and theirs. `aliases` by our name."""

    def __init__(self, aliases: Mapping[str, Sequence[str]] | None = None) -> None:
        self._aliases = {ours: tuple(names) for ours, names in (aliases or {}).items()}
        self._ours = {
            name.casefold(): ours
            for ours, names in self._aliases.items()
            for name in (*names, ours)
        }

    @classmethod
    def of_catalogue(cls, services: Mapping[str, CatalogueEntry]) -> ServiceNames:
        """Of the settings' service catalogue."""
        return cls({name: entry.aliases for name, entry in services.items()})

    def theirs(self, service: str) -> tuple[str, ...]:
        """Every name the service may have, our own first."""
        return tuple(dict.fromkeys((service, *self._aliases.get(service, ()))))

    def ours(self, name: str) -> str:
        """Our name of a service; the given one where the catalogue has none."""
        return self._ours.get(name.casefold(), name)

    def found(self, service: str, known: Iterable[str]) -> tuple[str, ...]:
        """Those of the known names that mean the service, in whatever case they are written."""
        wanted = {name.casefold() for name in self.theirs(service)}
        return tuple(name for name in known if name.casefold() in wanted)


def in_scope(request: Request, most: int) -> tuple[list[str], int]:
    """Our names of the services to ask about, the alert's own first, and how many more there
    are."""
    named = [s for s in (request.alert.service, *request.scope.services) if s]
    wanted = list(dict.fromkeys(named))
    return wanted[:most], max(0, len(wanted) - most)
