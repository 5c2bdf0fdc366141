"""Monitors: the one that alerts, those of the services in scope, and what states they went through.

State changes are events of the source `alert` (docs.datadoghq.com, "Events Explorer");
re-notifications are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import readable
from faultline.connectors.vendors.datadog.calls import EVENTS, MONITOR, MONITORS
from faultline.connectors.vendors.datadog.inquiry import (
    DatadogEvidence,
    DatadogInquiry,
    DatadogPart,
)
from faultline.connectors.vendors.datadog.logs import ListAnswer, iso
from faultline.connectors.vendors.datadog.values import (
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
    # Other vendors use labels like `alert_id` for their own numbers.
    names = ID_LABELS if alert.source == "datadog" else ("monitor_id",)
    for name in names:
        label = alert.labels.get(name, "")
        if _ID.fullmatch(label):
            return int(label)
    links = [link.url for link in alert.links]
    for text_with_link in (*links, *alert.labels.values(), alert.summary or ""):
        page = _LINK.search(text_with_link[:4000])
        if page:
            return int(page[1])
    return None


async def read_monitor_of(inquiry: DatadogInquiry, monitor_id: int) -> Monitor:
    """The monitor with the states of its groups. Raises ConnectorError."""
    return await inquiry.ask(MONITOR, dict[str, Any], monitor_id=monitor_id, group_states="all")


def of_monitor(inquiry: DatadogInquiry, monitor_id: int, monitor: Monitor) -> DatadogEvidence:
    """The monitor's states by group, and its own words."""
    link = inquiry.links.monitor(monitor_id, inquiry.whole)
    evidence = DatadogEvidence()
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
    count = evidence.add("monitors", made[:MOST_GROUPS])
    left_out = len(made) - MOST_GROUPS
    item = Item(
        "monitors",
        f"GET /api/v1/monitor/{monitor_id}?group_states=all",
        inquiry.whole,
        link,
        rows=count,
        cut=f"{left_out} of {len(made)} groups left out" if left_out > 0 else None,
        details={name: value for name, value in details.items() if value},
    )
    evidence.items.append(item)
    return evidence


def _states(inquiry: DatadogInquiry, monitor: Monitor, link: str) -> list[tuple[Any, ...]]:
    """One row per group; a group that is not calm first."""
    name = text(monitor.get("name")) or "monitor without a name"
    monitor_service = tags(monitor.get("tags")).get("service")
    groups = table(table(monitor.get("state")).get("groups"))
    calm: list[tuple[Any, ...]] = []
    alerting: list[tuple[Any, ...]] = []
    for key, raw_group in groups.items():
        group = table(raw_group)
        state = text(group.get("status"), 40).lower()
        began = "last_resolved_ts" if state in CALM else "last_triggered_ts"
        since = moment(group.get(began)) or moment(group.get("last_nodata_ts"))
        if not state or since is None:
            continue
        # A group's name is the tags that it is of: "service:checkout,env:prod".
        service = inquiry.names.ours(tags(str(key)[:1000]).get("service") or monitor_service)
        rows = calm if state in CALM else alerting
        rows.append((name, service, state, since, link))
    # Callers cut the list, which must drop calm groups first.
    return alerting + calm


async def of_services(inquiry: DatadogInquiry, besides: int | None) -> DatadogEvidence:
    """The monitors of the services in scope that are not calm."""
    parts = []
    for service in inquiry.their_services[:MOST_WATCHED]:
        tag = metric_tag("service", service)
        question = partial(_tagged, inquiry, tag, besides)
        parts.append(DatadogPart("monitors", f"monitors of {tag}", question))
    return await inquiry.gathered(parts)


async def _tagged(inquiry: DatadogInquiry, tag: str, besides: int | None) -> DatadogEvidence:
    monitors = await inquiry.ask(
        MONITORS,
        list[dict[str, Any]],
        group_states="alert,warn,no data",
        monitor_tags=tag,
        page=0,
        page_size=MOST_MONITORS,
    )
    made: list[tuple[Any, ...]] = []
    for monitor in monitors:
        monitor_id = number(monitor.get("id"))
        if monitor_id is None or int(monitor_id) == besides:
            continue
        page = inquiry.links.monitor(int(monitor_id), inquiry.whole)
        made += _states(inquiry, monitor, page)[:MOST_STATES]
    evidence = DatadogEvidence()
    count = evidence.add("monitors", made)
    is_full = len(monitors) >= MOST_MONITORS
    cut = f"only the first {MOST_MONITORS} monitors were asked" if is_full else None
    query = f"GET /api/v1/monitor?monitor_tags={tag}"
    link = inquiry.links.monitors(f"tag:{tag}")
    evidence.items.append(Item("monitors", query, inquiry.whole, link, rows=count, cut=cut))
    return evidence


async def history(inquiry: DatadogInquiry, monitor_id: int | None) -> DatadogEvidence:
    """The changes of state of the alerting monitor and of the services' monitors, over all
    windows."""
    about = []
    if monitor_id is not None:
        about.append(f"@monitor.id:{monitor_id}")
    if inquiry.services:
        about.append(any_of("service", inquiry.their_services))
    if not about:
        return DatadogEvidence()
    query = f"source:alert -@monitor.transition.transition_type:renotify ({' OR '.join(about)})"
    window = inquiry.whole
    answer = await search_events(inquiry, query, MOST_EVENTS)
    entries = [table(entry.get("attributes")) for entry in answer.data or []]
    evidence = DatadogEvidence()
    count = evidence.add("monitors", readable(_transition(inquiry, entry) for entry in entries))
    cut = f"only the latest {MOST_EVENTS} were asked" if answer.more else answer.warning
    link = inquiry.links.events(query, window)
    evidence.items.append(Item("monitors", query, window, link, rows=count, cut=cut))
    return evidence


async def search_events(inquiry: DatadogInquiry, query: str, limit: int) -> ListAnswer:
    """The latest events of all windows."""
    window = inquiry.whole
    search_filter = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    body = {"filter": search_filter, "sort": "-timestamp", "page": {"limit": limit}}
    return await inquiry.ask(EVENTS, ListAnswer, body=body)


def _transition(inquiry: DatadogInquiry, event: Mapping[str, Any]) -> tuple[Any, ...] | None:
    fields = table(event.get("attributes"))
    at = moment(event.get("timestamp")) or moment(fields.get("timestamp"))
    monitor = table(fields.get("monitor"))
    name = text(monitor.get("name")) or text(fields.get("title"))
    state = text(inner(monitor, "transition.destination_state"), 40) or text(
        fields.get("status"), 40
    )
    if at is None or not name or not state:
        return None
    event_tags = tags(event.get("tags")) | tags(monitor.get("tags"))
    service = inquiry.names.ours(text(fields.get("service")) or event_tags.get("service"))
    monitor_id = number(monitor.get("id")) or number(fields.get("monitor_id"))
    link = inquiry.links.monitor(int(monitor_id), inquiry.whole) if monitor_id else None
    return name, service, state.lower(), at, link


def tags_of(monitor: Monitor) -> dict[str, str]:
    """What a monitor's own tags and the scope of its query say, by key."""
    query = text(monitor.get("query"), 2000)
    scopes = ",".join(re.findall(r"\{([^{}*]{1,500})\}", query))
    tag_values = {**tags(scopes), **tags(monitor.get("tags"))}
    # What a scope excludes does not tell what the monitor is about.
    return {key: value for key, value in tag_values.items() if not key.startswith(("!", "-"))}
