"""The service catalogue of the settings: what a service is called, and what it calls."""

from __future__ import annotations

from faultline.bot.settings import Settings


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
