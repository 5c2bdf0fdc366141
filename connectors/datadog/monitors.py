"""Monitors: the one that alerts, those of the services in scope, and what states they went through.

State changes are events of the source `alert` (docs.datadoghq.com, "Events Explorer");
re-notifications are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis.vocabulary import Alert
from connectors.base import Item
from connectors.datadog.calls import EVENTS, MONITOR, MONITORS
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry, DatadogPart
from connectors.datadog.logs import ListAnswer, iso
from connectors.datadog.values import (
    any_of,
    inner,
    message,
    metric_tag,
    moment,
    number,
    table,
    tags,
    text,
    texts,
)

MOST_GROUPS = 50
MOST_MONITORS = 50
MOST_WATCHED, MOST_STATES = 3, 5
"""Services whose monitors are asked, and states kept of each of these."""
MOST_EVENTS = 300
ID_LABELS = ("monitor_id", "alert_id", "datadog_monitor_id")
_LINK = re.compile(r"https://[a-z0-9.-]{1,80}/monitors[/#](\d{1,18})(?![\d/])")
_ID = re.compile(r"\d{1,18}")
CALM = frozenset({"ok", "ignored", "skipped"})

Monitor = Mapping[str, Any]


def monitor_of(alert: Alert) -> int | None:
    """The monitor that alerts: by a label, else by a link to its page in the alert's links, labels
    or text."""
    own = [alert.labels.get(name, "") for name in ID_LABELS] if alert.source == "datadog" else []
    own += [alert.labels.get("monitor_id", "")]
    for given in own:
        if _ID.fullmatch(given):
            return int(given)
    said = (*(link.url for link in alert.links), *alert.labels.values(), alert.summary or "")
    return next((int(m[1]) for one in said if (m := _LINK.search(one[:4000]))), None)


async def read_monitor_of(inquiry: DatadogInquiry, monitor_id: int) -> Monitor:
    """The monitor with the states of its groups. Raises ConnectorError."""
    return await inquiry.ask(MONITOR, dict[str, Any], monitor_id=monitor_id, group_states="all")


def of_monitor(inquiry: DatadogInquiry, monitor_id: int, monitor: Monitor) -> DatadogEvidence:
    """The monitor's states by group, and its own words."""
    link = inquiry.links.monitor(monitor_id, inquiry.whole)
    found = DatadogEvidence()
    made = _states(inquiry, monitor, link)
    details = {
        "name": text(monitor.get("name")),
        "query": text(monitor.get("query"), 1000),
        "type": text(monitor.get("type")),
        "state": text(monitor.get("overall_state")),
        "priority": text(monitor.get("priority")),
        "tags": ", ".join(text(t, 200) for t in texts(monitor.get("tags"))[:30]),
        "modified": text(monitor.get("modified")),
        "message": message(monitor.get("message"))[:1000],
    }
    count = found.add("monitors", made[:MOST_GROUPS])
    cut = (
        f"{len(made) - MOST_GROUPS} of {len(made)} groups left out"
        if len(made) > MOST_GROUPS
        else None
    )
    said = {k: v for k, v in details.items() if v}
    query = f"GET /api/v1/monitor/{monitor_id}?group_states=all"
    found.items.append(
        Item("monitors", query, inquiry.whole, link, rows=count, cut=cut, details=said)
    )
    return found


def _states(inquiry: DatadogInquiry, monitor: Monitor, link: str) -> list[tuple[Any, ...]]:
    """One row per group; a group that is not calm first."""
    name = text(monitor.get("name")) or "monitor without a name"
    own = tags(monitor.get("tags")).get("service")
    groups = table(table(monitor.get("state")).get("groups"))
    made = []
    for key, given in groups.items():
        group = table(given)
        state = text(group.get("status"), 40).lower()
        calm = state in CALM
        since = moment(group.get("last_resolved_ts" if calm else "last_triggered_ts")) or moment(
            group.get("last_nodata_ts")
        )
        if state and since is not None:
            service = inquiry.names.ours(tags(str(key)[:1000]).get("service") or own)
            made.append((calm, (name, service, state, since, link)))
    return [row for _, row in sorted(made, key=lambda one: one[0])]


async def of_services(inquiry: DatadogInquiry, besides: int | None) -> DatadogEvidence:
    """The monitors of the services in scope that are not calm."""
    tags_of_them = [
        metric_tag("service", service) for service in inquiry.their_services[:MOST_WATCHED]
    ]
    return await inquiry.gathered(
        DatadogPart("monitors", f"monitors of {tag}", partial(_tagged, inquiry, tag, besides))
        for tag in tags_of_them
    )


async def _tagged(inquiry: DatadogInquiry, tag: str, besides: int | None) -> DatadogEvidence:
    found, asked = DatadogEvidence(), {"group_states": "alert,warn,no data", "monitor_tags": tag}
    monitors = await inquiry.ask(
        MONITORS, list[dict[str, Any]], **asked, page=0, page_size=MOST_MONITORS
    )
    made: list[tuple[Any, ...]] = []
    for one in monitors:
        monitor_id = number(one.get("id"))
        if monitor_id is not None and int(monitor_id) != besides:
            made += _states(inquiry, one, inquiry.links.monitor(int(monitor_id), inquiry.whole))[
                :MOST_STATES
            ]
    link = inquiry.links.monitors(f"tag:{tag}")
    cut = (
        f"only the first {MOST_MONITORS} monitors were asked"
        if len(monitors) >= MOST_MONITORS
        else None
    )
    query = f"GET /api/v1/monitor?monitor_tags={tag}"
    found.items.append(
        Item("monitors", query, inquiry.whole, link, rows=found.add("monitors", made), cut=cut)
    )
    return found


async def history(inquiry: DatadogInquiry, monitor_id: int | None) -> DatadogEvidence:
    """The changes of state of the alerting monitor and of the services' monitors, over all
    windows."""
    about = [f"@monitor.id:{monitor_id}"] if monitor_id is not None else []
    about += [any_of("service", inquiry.their_services)] if inquiry.services else []
    if not about:
        return DatadogEvidence()
    query = f"source:alert -@monitor.transition.transition_type:renotify ({' OR '.join(about)})"
    window = inquiry.whole
    answer = await search_events(inquiry, query, MOST_EVENTS)
    made = [
        row
        for one in answer.data or []
        if (row := _transition(inquiry, table(one.get("attributes")))) is not None
    ]
    found = DatadogEvidence()
    cut = f"only the latest {MOST_EVENTS} were asked" if answer.more else answer.warning
    link = inquiry.links.events(query, window)
    found.items.append(
        Item("monitors", query, window, link, rows=found.add("monitors", made), cut=cut)
    )
    return found


async def search_events(inquiry: DatadogInquiry, query: str, limit: int) -> ListAnswer:
    """The latest events of all windows."""
    window = inquiry.whole
    given = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    return await inquiry.ask(
        EVENTS, ListAnswer, body={"filter": given, "sort": "-timestamp", "page": {"limit": limit}}
    )


def _transition(inquiry: DatadogInquiry, event: Mapping[str, Any]) -> tuple[Any, ...] | None:
    own = table(event.get("attributes"))
    at = moment(event.get("timestamp")) or moment(own.get("timestamp"))
    monitor = table(own.get("monitor"))
    name = text(monitor.get("name")) or text(own.get("title"))
    state = text(inner(monitor, "transition.destination_state"), 40) or text(own.get("status"), 40)
    if at is None or not name or not state:
        return None
    known = tags(event.get("tags")) | tags(monitor.get("tags"))
    service = inquiry.names.ours(text(own.get("service")) or known.get("service"))
    monitor_id = number(monitor.get("id")) or number(own.get("monitor_id"))
    link = inquiry.links.monitor(int(monitor_id), inquiry.whole) if monitor_id else None
    return name, service, state.lower(), at, link


def tags_of(monitor: Monitor) -> dict[str, str]:
    """What a monitor's own tags and the scope of its query say, by key."""
    query = text(monitor.get("query"), 2000)
    scopes = ",".join(re.findall(r"\{([^{}*]{1,500})\}", query))
    return {
        k: v
        for k, v in {**tags(scopes), **tags(monitor.get("tags"))}.items()
        if not k.startswith(("!", "-"))
    }
