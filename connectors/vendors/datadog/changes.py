"""Changes: deployments known to DORA metrics, CI pipelines that deploy, and events that are about a
change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow, readable
from faultline.connectors.shared.rows.service_names import named_service
from faultline.connectors.shared.vendor_text import first_of, web_link
from faultline.connectors.vendors.datadog.calls import DEPLOYMENTS, EVENTS, PIPELINES
from faultline.connectors.vendors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from faultline.connectors.vendors.datadog.logs import ListAnswer, iso
from faultline.connectors.vendors.datadog.values import (
    any_of,
    inner,
    moment,
    rows,
    table,
    tags,
    text,
)
from faultline.connectors.vendors.pagerduty.answers import change_kind

LOOKBACK = timedelta(hours=24)
"""Changes are asked from that long before the earliest window: a deploy may take a day to do
harm."""
MOST = 200
DEPLOYS = (
    "(@ci.pipeline.name:*deploy* OR @ci.pipeline.name:*release* OR @ci.pipeline.name:*rollout*)"
)
CHANGE_EVENTS = (
    "(tags:(deploy OR deployment OR event_type\\:deployment OR change) "
    "OR deploy* OR released OR rollback OR "
    "rollout OR migration OR feature_flag OR @evt.category:change)"
)
"""Events are free text; those that a search for these words finds are read as what they say."""
AUTHOR_TAGS = ("author", "user", "deployed_by", "actor")
IDENTITY_TAGS = ("git.commit.sha", "commit", "version")
LINK_TAGS = ("url", "link")

ReadChange = Callable[[DatadogInquiry, Mapping[str, Any]], ChangeRow | None]


def window_of(inquiry: DatadogInquiry) -> Window:
    """Incident and baseline, and the day before them."""
    return Window(start=inquiry.around.start - LOOKBACK, end=inquiry.around.end)


async def deployments(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Deployments of the services in scope, with their versions and commits."""
    window = window_of(inquiry)
    query = inquiry.search
    attributes = {
        "_from": window.start,
        "to": window.end,
        "query": query,
        "limit": MOST,
        "sort": "-started_at",
    }
    body = {"data": {"type": "dora_deployments_list_request", "attributes": attributes}}
    answer = await inquiry.ask(DEPLOYMENTS, ListAnswer, body=body)
    link = inquiry.links.deployments(window)
    return _change_evidence(
        inquiry, _deployment, answer, f"DORA deployments: {query}", window, link
    )


async def pipelines(inquiry: DatadogInquiry) -> DatadogEvidence:
    """CI pipelines whose name says that they deploy; of a service where the pipeline or its
    repository names it."""
    window = window_of(inquiry)
    query = f"ci_level:pipeline {DEPLOYS}"
    answer = await inquiry.ask(PIPELINES, ListAnswer, body=_search(query, window))
    link = inquiry.links.pipelines(query, window)
    return _change_evidence(inquiry, _pipeline, answer, query, window, link)


async def events(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Events about a change of the services in scope, or of none."""
    window = window_of(inquiry)
    services = any_of("service", inquiry.their_services)
    query = f"-source:alert {CHANGE_EVENTS} ({services} OR -service:*)"
    answer = await inquiry.ask(EVENTS, ListAnswer, body=_search(query, window))
    return _change_evidence(
        inquiry, _event, answer, query, window, inquiry.links.events(query, window)
    )


def _search(query: str, window: Window) -> dict[str, Any]:
    search_filter = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    return {"filter": search_filter, "sort": "-timestamp", "page": {"limit": MOST}}


def _change_evidence(
    inquiry: DatadogInquiry,
    read: ReadChange,
    answer: ListAnswer,
    query: str,
    window: Window,
    link: str,
) -> DatadogEvidence:
    """The changes of an answer as evidence."""
    entries = answer.data or []
    evidence = DatadogEvidence()
    rows = readable(read(inquiry, entry) for entry in entries)
    evidence.add("changes", rows)
    is_full = answer.more or len(entries) >= MOST
    cut = f"only the latest {MOST} were asked" if is_full else answer.warning
    item = Item("changes", query, window, link, rows=len(rows), cut=cut)
    evidence.items.append(item.holding(rows))
    return evidence


def _deployment(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> ChangeRow | None:
    fields = table(entry.get("attributes"))
    at = moment(fields.get("started_at")) or moment(fields.get("finished_at"))
    service = inquiry.names.ours(text(fields.get("service")))
    if at is None or service is None:
        return None
    version = text(fields.get("version"), 120)
    env = text(fields.get("env"), 60)
    commit = text(inner(fields, "git.commit_sha"), 64)
    repository = text(inner(fields, "git.repository_id"), 200)
    title = f"Deployed {service}"
    if version:
        title += f" {version}"
    if env:
        title += f" to {env}"
    link = None
    # DORA's ids of other code hosts are not the address of a page.
    if commit and repository.startswith("github.com/"):
        link = web_link(f"https://{repository}/commit/{commit}")
    identity = commit or version or text(entry.get("id"), 80)
    return ChangeRow(at, service, "deploy", identity, title, link=link)


def _pipeline(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> ChangeRow | None:
    outer = table(entry.get("attributes"))
    fields = table(outer.get("attributes"))
    at = moment(fields.get("start")) or moment(fields.get("timestamp"))
    name = text(inner(fields, "ci.pipeline.name"), 160)
    if at is None or not name:
        return None
    service_tag = tags(outer.get("tags")).get("service")
    repository = text(inner(fields, "git.repository.name"), 160)
    # A tag says outright whose the pipeline is; a name only hints at it.
    service = (
        inquiry.names.ours(service_tag) if service_tag else _named(inquiry, f"{name} {repository}")
    )
    commit = text(inner(fields, "git.commit.sha"), 64)
    identity = commit or text(inner(fields, "ci.pipeline.id"), 120) or text(entry.get("id"), 80)
    author = text(inner(fields, "git.commit.author.name"), 80) or None
    link = web_link(inner(fields, "ci.pipeline.url"))
    title = f"Pipeline {name}"
    state = text(inner(fields, "ci.status"), 40)
    if state:
        title += f" ({state})"
    message = text(inner(fields, "git.commit.message"), 160)
    if message:
        title += f": {message}"
    return ChangeRow(at, service, "deploy", identity, title, author, link)


def _named(inquiry: DatadogInquiry, wording: str) -> str | None:
    """The service in scope that the text names."""
    candidates = {service: (inquiry.names.of(service),) for service in inquiry.services}
    return named_service(wording, candidates)


def _event(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> ChangeRow | None:
    outer = table(entry.get("attributes"))
    fields = table(outer.get("attributes"))
    at = moment(outer.get("timestamp"))
    title = text(fields.get("title")) or text(outer.get("message"))
    # What a monitor sends is an alert, not a change.
    if at is None or not title or fields.get("monitor"):
        return None
    event_tags = tags(outer.get("tags")) | tags(fields.get("tags"))
    service = inquiry.names.ours(text(fields.get("service")) or event_tags.get("service"))
    source = text(fields.get("source_type_name"), 80) or event_tags.get("source", "")
    tag_words = " ".join(f"{name} {value}" for name, value in event_tags.items())
    return ChangeRow(
        at,
        service or _named(inquiry, title),
        change_kind(f"{title} {tag_words[:500]} {source}"),
        first_of(event_tags, IDENTITY_TAGS) or text(entry.get("id"), 80),
        title,
        first_of(event_tags, AUTHOR_TAGS),
        _event_link(event_tags, fields),
    )


def _event_link(event_tags: Mapping[str, str], fields: Mapping[str, Any]) -> str | None:
    """The page that a tag names, else the first of the event's links."""
    link = web_link(first_of(event_tags, LINK_TAGS))
    if link:
        return link
    for row in rows(fields.get("links")):
        link = web_link(text(row.get("url"), 2000))
        if link:
            return link
    return None
