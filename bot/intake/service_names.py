"""Which service is meant? The catalogue's names and aliases, then words that look like one."""

from __future__ import annotations

import re

from faultline.bot.policy.services import catalogue_name
from faultline.bot.settings import Settings

_NAMED = re.compile(
    r"\b(?:service|svc|app|job)\s*[:=]\s*[`'\"]?([A-Za-z0-9][\w.-]{1,62})", re.IGNORECASE
)
_SUFFIXED = re.compile(
    r"(?<![\w./:-])[a-z][a-z0-9]*(?:[-_][a-z0-9]+){0,6}[-_](?:service|svc|api|worker|job|server)\b"
)
_SINGLE_WORD = re.compile(r"[A-Za-z][\w.-]{1,62}")


def catalogued(settings: Settings, *names: str) -> str | None:
    """The first of a vendor's names that the catalogue knows, by its name there; else the first
    that is not empty."""
    candidates = [name for name in names if name]
    for name in candidates:
        service = catalogue_name(name, settings)
        if service in settings.services:
            return service
    return candidates[0] if candidates else None


def mentioned(settings: Settings, text: str) -> str | None:
    """The service a text speaks of, or None.

    A catalogue name or alias counts first (the earliest in the text, the longest of those), then
    `service: name`, then a word such as `checkout-api`, then a text that is one single word.
    """
    service = _from_catalogue(settings, text)
    if service:
        return service
    named = _NAMED.search(text)
    if named:
        return named[1].rstrip(".-_")
    suffixed = _SUFFIXED.search(text)
    if suffixed:
        return suffixed[0]
    return text if _SINGLE_WORD.fullmatch(text) else None


def _from_catalogue(settings: Settings, text: str) -> str | None:
    matches: list[tuple[int, int, str]] = []
    folded = text.casefold()
    for name, entry in settings.services.items():
        for word in (name, *entry.aliases):
            if not word:
                continue
            # Not a part of a longer name: "payments-api" does not mention `api`.
            match = re.search(rf"(?<![\w-]){re.escape(word.casefold())}(?![\w-])", folded)
            if match:
                # The length is negated: of names at the same place, `min` takes the longest.
                matches.append((match.start(), -len(word), name))
    if not matches:
        return None
    _, _, earliest = min(matches)
    return earliest
