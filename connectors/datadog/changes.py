"""Changes: deployments known to DORA metrics, CI pipelines that deploy, and events that speak of a
change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from analysis.vocabulary import Window
from connectors.base import Item
from connectors.datadog.calls import DEPLOYMENTS, EVENTS, PIPELINES
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from connectors.datadog.logs import ListAnswer, iso
from connectors.datadog.values import any_of, inner, moment, rows, table, tags, text
from connectors.pagerduty.answers import change_kind, web_link

LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the earliest window: a deploy may take a day to do harm."""
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
_WORD = re.compile(r"[a-z0-9]+")


def window_of(inquiry: DatadogInquiry) -> Window:
    """Incident and baseline, and the day before them."""
    return Window(start=inquiry.around.start - LOOKBACK, end=inquiry.around.end)


async def deployments(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Deployments of the services in scope, with their versions and commits."""
    window, query = window_of(inquiry), inquiry.search
    given = {
        "_from": window.start,
        "to": window.end,
        "query": query,
        "limit": MOST,
        "sort": "-started_at",
    }
    body = {"data": {"type": "dora_deployments_list_request", "attributes": given}}
    answer = await inquiry.ask(DEPLOYMENTS, ListAnswer, body=body)
    made = [row for one in answer.data or [] if (row := _deployment(inquiry, one)) is not None]
    return _found(
        inquiry,
        f"DORA deployments: {query}",
        window,
        made,
        answer,
        inquiry.links.deployments(window),
    )


def _found(
    inquiry: DatadogInquiry,
    query: str,
    window: Window,
    made: list[tuple[Any, ...]],
    answer: ListAnswer,
    link: str,
) -> DatadogEvidence:
    found = DatadogEvidence()
    full = answer.more or len(answer.data or []) >= MOST
    cut = f"only the latest {MOST} were asked" if full else answer.warning
    found.items.append(
        Item("changes", query, window, link, rows=found.add("changes", made), cut=cut)
    )
    return found


def _deployment(inquiry: DatadogInquiry, one: Mapping[str, Any]) -> tuple[Any, ...] | None:
    own = table(one.get("attributes"))
    at = moment(own.get("started_at")) or moment(own.get("finished_at"))
    service = inquiry.names.ours(text(own.get("service")))
    if at is None or service is None:
        return None
    version, env = text(own.get("version"), 120), text(own.get("env"), 60)
    commit, repository = (
        text(inner(own, "git.commit_sha"), 64),
        text(inner(own, "git.repository_id"), 200),
    )
    title = f"Deployed {service}{f' {version}' if version else ''}{f' to {env}' if env else ''}"
    link = (
        web_link(f"https://{repository}/commit/{commit}")
        if commit and repository.startswith("github.com/")
        else None
    )
    return (
        at,
        service,
        "deploy",
        commit or version or text(one.get("id"), 80),
        title,
        None,
        link,
        None,
        None,
    )


async def pipelines(inquiry: DatadogInquiry) -> DatadogEvidence:
    """CI pipelines whose name says that they deploy; of a service where the pipeline or its
    repository names it."""
    window, query = window_of(inquiry), f"ci_level:pipeline {DEPLOYS}"
    given = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    body = {"filter": given, "sort": "-timestamp", "page": {"limit": MOST}}
    answer = await inquiry.ask(PIPELINES, ListAnswer, body=body)
    made = [row for one in answer.data or [] if (row := _pipeline(inquiry, one)) is not None]
    return _found(inquiry, query, window, made, answer, inquiry.links.pipelines(query, window))


def _pipeline(inquiry: DatadogInquiry, one: Mapping[str, Any]) -> tuple[Any, ...] | None:
    own = table(table(one.get("attributes")).get("attributes"))
    at = moment(own.get("start")) or moment(own.get("timestamp"))
    name, repository = (
        text(inner(own, "ci.pipeline.name"), 160),
        text(inner(own, "git.repository.name"), 160),
    )
    if at is None or not name:
        return None
    state, commit = text(inner(own, "ci.status"), 40), text(inner(own, "git.commit.sha"), 64)
    known = tags(table(one.get("attributes")).get("tags")).get("service")
    service = inquiry.names.ours(known) if known else _named(inquiry, f"{name} {repository}")
    said = text(inner(own, "git.commit.message"), 160)
    title = f"Pipeline {name}{f' ({state})' if state else ''}{f': {said}' if said else ''}"
    author = text(inner(own, "git.commit.author.name"), 80) or None
    link = web_link(inner(own, "ci.pipeline.url"))
    identity = commit or text(inner(own, "ci.pipeline.id"), 120) or text(one.get("id"), 80)
    return at, service, "deploy", identity, title, author, link, None, None


def _named(inquiry: DatadogInquiry, said: str) -> str | None:
    """The service in scope whose name stands in the text as whole words, the longest of them."""
    words = f" {' '.join(_WORD.findall(said.lower()))} "
    known = sorted(inquiry.services, key=len, reverse=True)
    return next(
        (s for s in known if f" {' '.join(_WORD.findall(inquiry.names.of(s)))} " in words), None
    )


async def events(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Events about a change of the services in scope, or of none."""
    window = window_of(inquiry)
    services = any_of("service", inquiry.their_services)
    query = f"-source:alert {CHANGE_EVENTS} ({services} OR -service:*)"
    given = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    body = {"filter": given, "sort": "-timestamp", "page": {"limit": MOST}}
    answer = await inquiry.ask(EVENTS, ListAnswer, body=body)
    made = [row for one in answer.data or [] if (row := _event(inquiry, one)) is not None]
    return _found(inquiry, query, window, made, answer, inquiry.links.events(query, window))


def _event(inquiry: DatadogInquiry, one: Mapping[str, Any]) -> tuple[Any, ...] | None:
    outer = table(one.get("attributes"))
    own, at = table(outer.get("attributes")), moment(outer.get("timestamp"))
    title = text(own.get("title")) or text(outer.get("message"))
    if at is None or not title or own.get("monitor"):
        return None
    known = tags(outer.get("tags")) | tags(own.get("tags"))
    service = inquiry.names.ours(text(own.get("service")) or known.get("service")) or _named(
        inquiry, title
    )
    source = text(own.get("source_type_name"), 80) or known.get("source", "")
    kind = change_kind(f"{title} {' '.join(f'{k} {v}' for k, v in known.items())[:500]} {source}")
    author = next(
        (known[k] for k in ("author", "user", "deployed_by", "actor") if k in known), None
    )
    identity = next(
        (known[k] for k in ("git.commit.sha", "commit", "version") if k in known),
        text(one.get("id"), 80),
    )
    link = web_link(next((found for k in ("url", "link") if (found := known.get(k))), None))
    link = link or next(
        (u for u in (web_link(text(r.get("url"), 2000)) for r in rows(own.get("links"))) if u), None
    )
    return at, service, kind, identity, title, author, link, None, None
