"""Which service is meant? Labels and rules, the catalogue's names and aliases, then words that look
like one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from faultline.analysis.alert_signal.deriving import alert_namings, reading_of, with_query
from faultline.analysis.alert_signal.rule_texts import is_exporter
from faultline.analysis.alert_signal.subjects import Naming, host_in
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.services import catalogue_name
from faultline.bot.settings import Settings

_NAMED = re.compile(
    r"\b(?:service|svc|app|job)\s*[:=]\s*[`'\"]?([A-Za-z0-9][\w.-]{1,62})", re.IGNORECASE
)
_SUFFIXED = re.compile(
    r"(?<![\w./:-])[a-z][a-z0-9]*(?:[-_][a-z0-9]+){0,6}[-_](?:service|svc|api|worker|job|server)\b"
)
_SINGLE_WORD = re.compile(r"[A-Za-z][\w.-]{1,62}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ROLES = (
    "service|svc|api|worker|job|jobs|server|db|database|cache|proxy|gateway|web|frontend|backend"
    "|consumer|producer|cron|ui|queue|redis|postgres|mysql|exporter"
)
"""Words that make another name of the one before them: `payments-api` is not `payments`."""
SKEW = timedelta(minutes=1)
"""Clocks that NTP keeps differ by far less."""
FARTHEST_AHEAD = timedelta(days=1)
"""What lies further ahead is no clock that is fast, but a wrong date."""


def catalogued(settings: Settings, *names: str) -> str | None:
    """The first of a vendor's names that the catalogue knows, by its name there; else the first
    that is not empty."""
    candidates = [name for name in names if name]
    for name in candidates:
        service = catalogue_name(name, settings)
        if service in settings.services:
            return service
    return candidates[0] if candidates else None


def identified(
    alert: Alert,
    settings: Settings,
    *,
    now: datetime,
    named: Sequence[Naming] = (),
    words: str = "",
) -> Alert:
    """The alert with the service that it is about and what names it, the machine, and with a start
    that is not in the future.

    `named` is what the vendor itself says, best first, and `words` are texts beside title and
    summary. A name of the catalogue counts before any other of the same evidence; texts count
    against the catalogue alone, before names that are only a hint.
    """
    with_rule = with_query(alert)
    namings = [
        naming
        for naming in (*named, *alert_namings(with_rule))
        if naming.service and not (is_exporter(naming.service) and not naming.is_hint)
    ]
    naming = next(
        _ranked(namings, f"{alert.title}\n{alert.summary or ''}\n{words}", settings), None
    )
    update: dict[str, object] = {
        "service": naming.service if naming is not None else None,
        "service_from": naming.source if naming is not None else None,
        "host": alert.host or host_in(alert.labels, reading_of(with_rule.query)),
    }
    ahead = alert.started_at - now
    if ahead > timedelta(0):
        update["started_at"] = now
    if ahead > FARTHEST_AHEAD:
        note = (
            f"{alert.source} says it began on {alert.started_at:%Y-%m-%d}, {ahead.days} days after "
            "it arrived. That date is wrong, so its arrival counts as its start."
        )
        update["notes"] = (*alert.notes, note)
    elif ahead > SKEW:
        note = (
            f"{alert.source} says it began {round(ahead.total_seconds() / 60)} minutes after it "
            "arrived: the sender's clock is ahead of ours. Its arrival counts as its start."
        )
        update["notes"] = (*alert.notes, note)
    return alert.model_copy(update=update)


def _ranked(namings: Sequence[Naming], text: str, settings: Settings) -> Iterator[Naming]:
    """The namings by the catalogue's names, the best first."""
    for naming in namings:
        service = catalogue_name(naming.service, settings)
        if service in settings.services:
            yield Naming(service or "", naming.source)
    yield from (naming for naming in namings if not naming.is_hint)
    in_hints = " ".join(naming.service for naming in namings)
    for source, words in (("its text", text), ("a part of its labels", in_hints)):
        service = in_catalogue(settings, words)
        if service:
            yield Naming(service, source)
    yield from namings


def mentioned(settings: Settings, text: str) -> str | None:
    """The service a text speaks of, or None.

    A catalogue name or alias counts first (the earliest in the text, the longest of those), then
    `service: name`, then a word such as `checkout-api`, then a text that is one single word.
    """
    service = in_catalogue(settings, text)
    if service:
        return service
    named = _NAMED.search(text)
    if named:
        return named[1].rstrip(".-_")
    suffixed = _SUFFIXED.search(text)
    if suffixed:
        return suffixed[0]
    return text if _SINGLE_WORD.fullmatch(text) else None


def in_catalogue(settings: Settings, text: str) -> str | None:
    """The service of the catalogue that a text names as a word, else as a part of a longer one:
    `checkout` of `prod-checkout-5xx-high` and of `CheckoutHighErrorRate`."""
    whole, part = text.casefold(), _CAMEL.sub("-", text).casefold()
    for form, pattern in ((whole, _WHOLE), (part, _PART)):
        matches: list[tuple[int, int, str]] = []
        for name, entry in settings.services.items():
            for word in filter(None, (name, *entry.aliases)):
                folded = word.casefold()
                match = re.search(pattern.replace("WORD", re.escape(folded)), form)
                # "payments-api" does not mention a service that is called `api`.
                if match is None or (pattern is _PART and folded in _ROLE_NAMES):
                    continue
                # The length is negated: of names at the same place, `min` takes the longest.
                matches.append((match.start(), -len(word), name))
        if matches:
            return min(matches)[2]
    return None


_WHOLE = r"(?<![\w-])WORD(?![\w-])"
_ROLE_NAMES = frozenset(_ROLES.split("|"))
_PART = rf"(?<![^\W_])WORD(?![^\W_])(?![-_](?:{_ROLES})(?![^\W_]))"
