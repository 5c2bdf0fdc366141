"""What the two keys can read, and whether the application key could also write, where reading
tells it.

A key with scopes may do what these name; one without may do all that its owner may
(docs.datadoghq.com, "API and Application Keys", "Scopes"). Which key ours is, its last four
characters tell.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.connectors.vendors.datadog.calls import (
    ACTIVE_METRICS,
    CURRENT_USER,
    CURRENT_USER_KEYS,
    DEPLOYMENTS,
    EVENTS,
    ISSUES,
    LOGS,
    MONITORS,
    PIPELINES,
    QUERY,
    RELATIONS,
    SPANS,
    USER_PERMISSIONS,
    Call,
)
from faultline.connectors.vendors.datadog.logs import epoch_ms, iso
from faultline.connectors.vendors.datadog.session import DatadogSession
from faultline.connectors.vendors.datadog.values import inner, rows, table, text, texts

_READS = re.compile(
    r"(?:_read|_read_data|_view|_query)$|^(?:logs_live_tail|logs_read_\w+|timeseries_query)$"
)
MOST_NAMED = 3
"""Write permissions that the line names."""
PERMISSIONS = {
    "metrics": "timeseries_query, metrics_read",
    "logs": "logs_read_data",
    "spans": "apm_read",
    "events": "events_read",
    "monitors": "monitors_read",
    "error tracking": "error_tracking_read",
    "service catalogue": "apm_service_catalog_read",
    "deployments": "dora_metrics_read",
    "CI pipelines": "ci_visibility_read",
}
"""What a key needs for each."""


def probes(now: datetime) -> Mapping[str, list[tuple[Call, dict[str, Any]]]]:
    """The cheapest call for each thing that is read: the last five minutes, one entry."""
    start = now - timedelta(minutes=5)
    seconds = {"_from": int(start.timestamp()), "to": int(now.timestamp())}
    # Nobody has this service, so the answers stay empty.
    search = {"query": "service:faultline-check", "_from": iso(start), "to": iso(now)}
    body = {"filter": search, "page": {"limit": 1}}
    issue = {"query": "*", "_from": epoch_ms(start), "to": epoch_ms(now), "track": "trace"}
    dora = {"_from": start, "to": now, "limit": 1}
    return {
        "metrics": [
            (QUERY, {**seconds, "query": "avg:datadog.agent.running{*}"}),
            (ACTIVE_METRICS, {"_from": seconds["_from"], "tag_filter": "service:faultline-check"}),
        ],
        "logs": [(LOGS, {"body": body})],
        "spans": [(SPANS, {"body": {"data": {"type": "search_request", "attributes": body}}})],
        "events": [(EVENTS, {"body": body})],
        "monitors": [(MONITORS, {"page": 0, "page_size": 1})],
        "error tracking": [
            (ISSUES, {"body": {"data": {"type": "search_request", "attributes": issue}}})
        ],
        "service catalogue": [(RELATIONS, {"page_limit": 1})],
        "deployments": [
            (
                DEPLOYMENTS,
                {"body": {"data": {"type": "dora_deployments_list_request", "attributes": dora}}},
            )
        ],
        "CI pipelines": [(PIPELINES, {"body": body})],
    }


InThread = Callable[[Callable[[], Any]], Any]


async def readable(session: DatadogSession, in_thread: InThread) -> dict[str, str | None]:
    """By what is read: None, or why it cannot be. Raises when Datadog does not answer at all."""
    requested_probes = probes(datetime.now(UTC))

    async def refusal(calls: list[tuple[Call, dict[str, Any]]]) -> str | None:
        for call, params in calls:
            try:
                await in_thread(partial(session.ask, call, msgspec.Raw, **params))
            except ConnectorError as error:
                # Without an answer, or with keys that are refused, the other probes fail alike.
                if error.status in (None, 401):
                    raise
                return f"HTTP {error.status}"
        return None

    refusals = await asyncio.gather(*(refusal(calls) for calls in requested_probes.values()))
    return dict(zip(requested_probes, refusals, strict=True))


async def writing(session: DatadogSession, in_thread: InThread, application_key: str) -> str:
    """Whether the application key could write, in words for one line."""

    def ask() -> str:
        keys = rows(session.ask(CURRENT_USER_KEYS, dict[str, Any], page_size=100).get("data"))
        tables = [table(k.get("attributes")) for k in keys]
        mine = [k for k in tables if k.get("last4") == application_key[-4:]]
        # Two keys may end alike, so only a single match counts.
        if len(mine) == 1 and isinstance(mine[0].get("scopes"), list):
            return _verdict(texts(mine[0]["scopes"]), "its scopes")
        user = session.ask(CURRENT_USER, dict[str, Any])
        user_id = text(inner(user, "data.id"), 64)
        permissions = rows(
            session.ask(USER_PERMISSIONS, dict[str, Any], user_id=user_id).get("data")
        )
        names = [text(table(p.get("attributes")).get("name"), 80) for p in permissions]
        return _verdict(
            [n for n in names if n],
            "its owner's role" if mine else "its owner's role, unless scopes narrow it",
        )

    try:
        verdict: str = await in_thread(ask)
    except BudgetExceeded:
        raise
    except FaultlineError:
        return "whether the key can also write is unknown (checking that needs user_app_keys)"
    return verdict


def _verdict(permissions: list[str], where: str) -> str:
    if not permissions:
        return "whether the key can also write is unknown"
    writes = sorted(p for p in permissions if not _READS.search(p))
    if not writes:
        return f"the key cannot write, by {where}"
    more = f" and {len(writes) - MOST_NAMED} more" if len(writes) > MOST_NAMED else ""
    named = ", ".join(writes[:MOST_NAMED])
    return (
        f"warning: the key can also write ({named}{more}, by "
        f"{where}): give it scopes that only read"
    )
