"""The NRQL that New Relic is asked, and the one GraphQL document that carries it.

NRQL only reads (docs.newrelic.com, "NRQL reference"). Names stand in it as literals. Events and
attributes: docs.newrelic.com/attribute-dictionary (`Transaction`, `Span`, `Log`) and, for `Span` of
OpenTelemetry, its semantic conventions; markers: "Change tracking".
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.http.graphql import GraphQLQuery
from faultline.connectors.shared.rows.collection_builder import epoch_ms
from faultline.connectors.shared.rows.log_windows import FAILING, CountGrid

NRQL = GraphQLQuery(
    "Nrql",
    "query Nrql($account: Int!, $nrql: Nrql!) { actor { account(id: $account) "
    "{ nrql(query: $nrql, timeout: 20) { results } } } }",
)
CONDITIONS = GraphQLQuery(
    "Conditions",
    "query Conditions($account: Int!, $name: String!) { actor { account(id: $account) { alerts "
    "{ nrqlConditionsSearch(searchCriteria: {name: $name}) { nrqlConditions { name type "
    "signal { aggregationWindow } terms { operator priority threshold thresholdDuration "
    "thresholdOccurrences } nrql { query } } } } } } }",
)
MOST_TRACES, MOST_SPANS = 30, 2000
MOST_CHANGES = 200
LOG_NAMES = ("entity.name", "service.name", "service", "container_name")
"""Attributes of a log line that may name its service."""
LEVELS = ("level", "severity.text")


class _Nrql(msgspec.Struct):
    results: list[dict[str, Any]] = []


class _Account(msgspec.Struct):
    nrql: _Nrql | None = None


class _Actor(msgspec.Struct):
    account: _Account | None = None


class NrqlAnswer(msgspec.Struct):
    """What NerdGraph answers."""

    actor: _Actor

    @property
    def results(self) -> list[dict[str, Any]] | None:
        """The rows; None where the account cannot be read."""
        account = self.actor.account
        return account.nrql.results if account is not None and account.nrql is not None else None


def literal(text: str) -> str:
    """A string in NRQL."""
    printable = "".join(c if c.isprintable() else " " for c in text[:200])
    # Backslashes first, or those before the quotes would be doubled too.
    escaped = printable.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _in_list(attribute: str, values: Iterable[str]) -> str:
    return f"{attribute} IN ({', '.join(literal(value) for value in values)})"


def _any_of(attributes: Sequence[str], values: Sequence[str]) -> str:
    return f"({' OR '.join(_in_list(attribute, values) for attribute in attributes)})"


def _during(start_ms: int, end_ms: int) -> str:
    return f"SINCE {start_ms} UNTIL {end_ms}"


def during(window: Window) -> str:
    """The clause of a window."""
    return _during(epoch_ms(window.start), epoch_ms(window.end))


def _of_grid(grid: CountGrid) -> str:
    end = grid.start_s + grid.steps * grid.step_s
    minutes = grid.step_s // 60
    steps = f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"TIMESERIES {steps} {_during(grid.start_s * 1000, end * 1000)}"


def transactions(names: Sequence[str], grid: CountGrid) -> str:
    """Golden signals of services with an APM agent; durations in s."""
    # A FACET gives ten values unless it has a LIMIT.
    return (
        "SELECT rate(count(*), 1 second) AS 'rate', percentage(count(*), WHERE error IS true) "
        "AS 'failed', percentile(duration, 50, 99) AS 'took' FROM Transaction WHERE "
        f"{_in_list('appName', names)} FACET appName LIMIT 20 {_of_grid(grid)}"
    )


def server_spans(names: Sequence[str], grid: CountGrid) -> str:
    """The same of services that send OpenTelemetry; durations in ms."""
    return (
        "SELECT rate(count(*), 1 second) AS 'rate', percentage(count(*), WHERE otel.status_code = "
        "'ERROR') AS 'failed', percentile(duration.ms, 50, 99) AS 'took' FROM Span WHERE "
        f"span.kind = 'server' AND {_in_list('service.name', names)} FACET service.name LIMIT 20 "
        f"{_of_grid(grid)}"
    )


def log_counts(names: Sequence[str], grid: CountGrid) -> str:
    """Lines by level."""
    where = _any_of(LOG_NAMES, names)
    return (
        f"SELECT count(*) AS 'lines' FROM Log WHERE {where} FACET level LIMIT 50 {_of_grid(grid)}"
    )


def lines(names: Sequence[str], more: str = "") -> str:
    """Log lines of a service, without their window."""
    also = f" AND {more}" if more else ""
    return f"SELECT * FROM Log WHERE {_any_of(LOG_NAMES, names)}{also}"


def failing() -> str:
    """Which of them are errors."""
    levels = []
    for level in sorted(FAILING):
        # `IN` is case-sensitive.
        levels += [level, level.upper(), level.capitalize()]
    return _any_of(LEVELS, levels)


def saying(words: Sequence[str]) -> str:
    """Which of them say one of the words."""
    either = []
    for word in words:
        # Both are wildcards of LIKE.
        plain = word.replace("%", " ").replace("_", " ")
        either.append(f"message LIKE {literal(f'%{plain}%')}")
    return f"({' OR '.join(either)})"


def page(text: str, window: Window, limit: int) -> str:
    """The first lines of a window."""
    return f"{text} ORDER BY timestamp ASC LIMIT {limit} {during(window)}"


def trace_ids(names: Sequence[str], window: Window) -> str:
    """Traces that a service is part of."""
    where = _any_of(("service.name", "appName"), names)
    return (
        f"SELECT uniques(trace.id, {MOST_TRACES}) AS 'ids' FROM Span WHERE {where} {during(window)}"
    )


def spans(ids: Sequence[str], window: Window) -> str:
    """All spans of these traces."""
    where = _in_list("trace.id", ids)
    return f"SELECT * FROM Span WHERE {where} LIMIT {MOST_SPANS} {during(window)}"


def changes(window: Window) -> str:
    """Markers of deployments and other changes, the latest first."""
    return f"SELECT * FROM Deployment, ChangeTrackingEvent LIMIT {MOST_CHANGES} {during(window)}"


def counted(event: str) -> str:
    """Whether there are events of a kind."""
    return f"SELECT count(*) AS 'events' FROM {event} SINCE 1 hour ago"


def link(app: str, account: int, text: str) -> str:
    """The query in New Relic's query builder, by the state that its own links hold."""
    state = {
        "nerdletId": "data-exploration.query-builder",
        "initialActiveInterface": "nrqlEditor",
        "initialNrqlValue": text,
        "initialAccountId": account,
    }
    packed = base64.urlsafe_b64encode(msgspec.json.encode(state)).decode().rstrip("=")
    return f"{app}/launcher/data-exploration.query-builder?pane={packed}"
