"""Calls between services, from the relations of the software catalogue. They include what APM has
seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import CallRow, nanoseconds, readable
from faultline.connectors.vendors.datadog.calls import RELATIONS
from faultline.connectors.vendors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from faultline.connectors.vendors.datadog.values import table, text

PAGE = 100
MOST_SUBJECTS = 3
"""Services whose relations are asked, in both directions each."""
MOST_CALLED = 3
"""Services called by the first one that are asked about though nobody named them."""
SIDES = ("filter_from_ref", "filter_to_ref")
DEPENDS, DEPENDED = "RelationTypeDependsOn", "RelationTypeDependencyOf"


class RelationsAnswer(msgspec.Struct):
    """A page of relations."""

    data: list[dict[str, Any]] | None = None


async def topology(inquiry: DatadogInquiry) -> DatadogEvidence:
    """The edges from and to the first services in scope."""
    calls = []
    for service in inquiry.services[:MOST_SUBJECTS]:
        theirs = inquiry.names.of(service)
        calls += [_relations(inquiry, theirs, side) for side in SIDES]
    return DatadogEvidence.of(await asyncio.gather(*calls))


async def _relations(inquiry: DatadogInquiry, theirs: str, side: str) -> DatadogEvidence:
    params: dict[str, Any] = {
        side: f"service:{theirs}",
        "page_limit": PAGE,
        "include_discovered": True,
    }
    answer = await inquiry.ask(RELATIONS, RelationsAnswer, **params)
    relations = answer.data or []
    evidence = DatadogEvidence()
    pairs = readable(_edge(inquiry, table(relation.get("attributes"))) for relation in relations)
    # The catalog does not say when a relation was seen: it holds when it is asked.
    requested_nanoseconds = nanoseconds(inquiry.incident.end)
    edges = [CallRow(caller, callee, "datadog", requested_nanoseconds) for caller, callee in pairs]
    count = evidence.add("topology", edges)
    cut = f"only the first {PAGE} relations were asked" if len(relations) >= PAGE else None
    query = f"relations, {side.removeprefix('filter_')}=service:{theirs}"
    link = inquiry.links.service(theirs)
    evidence.items.append(Item("topology", query, link=link, rows=count, cut=cut))
    return evidence


def called_by(evidence: DatadogEvidence, service: str) -> tuple[str, ...]:
    """The services that one calls, by the edges found; the first few by name."""
    called = set()
    for name, part in evidence.parts:
        if name != "topology":
            continue
        called |= set(part.filter(pl.col("caller") == service)["callee"])
    return tuple(sorted(called))[:MOST_CALLED]


def _edge(inquiry: DatadogInquiry, relation: Mapping[str, Any]) -> tuple[str, str] | None:
    """Caller and callee; None for a relation that is no call between two services."""
    start = _service_at(inquiry, relation.get("from"))
    end = _service_at(inquiry, relation.get("to"))
    if not start or not end or start == end:
        return None
    kind = text(relation.get("type"))
    if kind == DEPENDS:
        return start, end
    if kind == DEPENDED:
        return end, start
    return None


def _service_at(inquiry: DatadogInquiry, end: Any) -> str | None:
    return inquiry.names.ours(text(table(end).get("name"), 200))
