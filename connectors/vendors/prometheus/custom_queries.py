"""Queries that operators and runbooks write, with placeholders for the services, the job and the
place of an alert."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faultline.analysis.errors import SettingsError
from faultline.connectors.vendors.prometheus.promql import PromQuery, one_of, quoted

_NAMES = "service|job|environment|cluster|region"
_PLACEHOLDER = re.compile(rf'(=~|!~|!=|=)\s*"\{{({_NAMES})\}}"')
_ANYWHERE = re.compile(rf"\{{({_NAMES})\}}")
_ANYTHING = '=~".*"'


@dataclass(frozen=True)
class Asked:
    """What the placeholders stand for."""

    services: Sequence[str] = ()
    job: str | None = None
    place: Mapping[str, str] = field(default_factory=dict)
    """Environment, cluster and region of the alert, as far as it names them."""


def check_custom(queries: Mapping[str, str]) -> None:
    """Raise SettingsError for a configured query whose placeholder is not the whole of a matcher's
    quoted value."""
    for signal, text in queries.items():
        if len(_ANYWHERE.findall(text)) != len(_PLACEHOLDER.findall(text)):
            raise SettingsError(
                f"prometheus.queries.{signal}",
                'write placeholders as service=~"{service}" or job="{job}", with the quotes',
            )


def build_custom(signal: str, text: str, service_label: str, asked: Asked) -> list[PromQuery]:
    """A configured query, or one per service where it says `="{service}"`; none where it needs what
    is not in scope."""
    placeholders = _PLACEHOLDER.findall(text)
    names = {name for _, name in placeholders}
    if "job" in names and asked.job is None:
        return []
    by = (service_label,)
    # A matcher that is no regular expression takes one name at a time.
    if ("=", "service") in placeholders or ("!=", "service") in placeholders:
        queries = []
        for service in asked.services:
            alone = Asked([service], asked.job, asked.place)
            queries.append(PromQuery(signal, None, _filled(text, alone), by, service))
        return queries
    only = None
    if "job" in names and "service" not in names:
        only = asked.job
    elif len(asked.services) == 1:
        only = asked.services[0]
    narrow = "service" in names and bool(asked.services)
    return [PromQuery(signal, None, _filled(text, asked), by, only, narrow=narrow)]


def _filled(text: str, asked: Asked) -> str:
    return _PLACEHOLDER.sub(lambda found: _matcher(found[1], found[2], asked), text)


def _matcher(operator: str, name: str, asked: Asked) -> str:
    """The operator and what it compares with; an alert that names no cluster is from any."""
    if name not in ("service", "job"):
        if name not in asked.place:
            return _ANYTHING
        names: Sequence[str] = [asked.place[name]]
    else:
        names = [asked.job or ""] if name == "job" else asked.services
    if operator in ("=", "!="):
        return f'{operator}"{quoted(names[0])}"'
    return f'{operator}"{one_of(names) if names else ".+"}"'
