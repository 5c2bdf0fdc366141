"""Queries that operators and runbooks write, with placeholders for the services, the job and the
place of an alert."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faultline.analysis.errors import SettingsError
from faultline.connectors.vendors.prometheus.promql import PromQuery, names_pattern, quoted

_NAMES = "service|job|environment|cluster|region"
_PLACEHOLDER = re.compile(rf'(=~|!~|!=|=)\s*"\{{({_NAMES})\}}"')
_ANYWHERE = re.compile(rf"\{{({_NAMES})\}}")
_ANYTHING = '=~".*"'


@dataclass(frozen=True)
class Substitutions:
    """What the placeholders stand for."""

    services: Sequence[str] = ()
    job: str | None = None
    place: Mapping[str, str] = field(default_factory=dict)
    """Environment, cluster and region of the alert, as far as it names them."""


def check_custom(queries: Mapping[str, str]) -> None:
    """Raise SettingsError for a configured query whose placeholder is not the whole of a matcher's
    quoted value."""
    for signal, text in queries.items():
        # Outside of quotes, a name from an alert could become part of the query.
        if len(_ANYWHERE.findall(text)) != len(_PLACEHOLDER.findall(text)):
            raise SettingsError(
                f"prometheus.queries.{signal}",
                'write placeholders as service=~"{service}" or job="{job}", with the quotes',
            )


def build_custom(
    signal: str, text: str, service_label: str, substitutions: Substitutions
) -> list[PromQuery]:
    """A configured query, or one per service where it says `="{service}"`; none where it needs what
    is not in scope."""
    placeholders = _PLACEHOLDER.findall(text)
    names = {name for _, name in placeholders}
    if "job" in names and substitutions.job is None:
        return []
    by = (service_label,)
    # A matcher that is no regular expression takes one name at a time.
    if ("=", "service") in placeholders or ("!=", "service") in placeholders:
        queries = []
        for service in substitutions.services:
            alone = Substitutions([service], substitutions.job, substitutions.place)
            queries.append(PromQuery(signal, None, _filled(text, alone), by, service))
        return queries
    only = None
    if "job" in names and "service" not in names:
        only = substitutions.job
    elif len(substitutions.services) == 1:
        only = substitutions.services[0]
    narrow = "service" in names and bool(substitutions.services)
    return [PromQuery(signal, None, _filled(text, substitutions), by, only, narrow=narrow)]


def _filled(text: str, substitutions: Substitutions) -> str:
    return _PLACEHOLDER.sub(lambda match: _matcher(match[1], match[2], substitutions), text)


def _matcher(operator: str, name: str, substitutions: Substitutions) -> str:
    """The operator and what it compares with; an alert that names no cluster is from any."""
    if name not in ("service", "job"):
        if name not in substitutions.place:
            return _ANYTHING
        names: Sequence[str] = [substitutions.place[name]]
    else:
        names = [substitutions.job or ""] if name == "job" else substitutions.services
    if operator in ("=", "!="):
        return f'{operator}"{quoted(names[0])}"'
    return f'{operator}"{names_pattern(names) if names else ".+"}"'
