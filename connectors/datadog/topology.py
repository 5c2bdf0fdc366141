"""Who calls whom, from the relations of the software catalogue, those that APM has seen
included."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from connectors.base import Item
from connectors.datadog.calls import RELATIONS
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from connectors.datadog.values import table, text

PAGE = 100
MOST_ASKED = 3
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
    asked = [(inquiry.names.of(s), side) for s in inquiry.services[:MOST_ASKED] for side in SIDES]
    return DatadogEvidence.of(
        await asyncio.gather(*(_relations(inquiry, theirs, side) for theirs, side in asked))
    )


async def _relations(inquiry: DatadogInquiry, theirs: str, side: str) -> DatadogEvidence:
    given: dict[str, Any] = {
        side: f"service:{theirs}",
        "page_limit": PAGE,
        "include_discovered": True,
    }
    data = (await inquiry.ask(RELATIONS, RelationsAnswer, **given)).data or []
    edges = [
        edge for one in data if (edge := _edge(inquiry, table(one.get("attributes")))) is not None
    ]
    found = DatadogEvidence()
    cut = f"only the first {PAGE} relations were asked" if len(data) >= PAGE else None
    query = f"relations, {side.removeprefix('filter_')}=service:{theirs}"
    count, link = found.add("topology", edges), inquiry.links.service(theirs)
    found.items.append(Item("topology", query, link=link, rows=count, cut=cut))
    return found


def called_by(found: DatadogEvidence, service: str) -> tuple[str, ...]:
    """The services that one calls, by the edges found; the first few by name."""
    edges = {edge for name, part in found.parts if name == "topology" for edge in part.iter_rows()}
    return tuple(sorted(callee for caller, callee in edges if caller == service))[:MOST_CALLED]


def _edge(inquiry: DatadogInquiry, relation: Mapping[str, Any]) -> tuple[str, str] | None:
    one, other = table(relation.get("from")), table(relation.get("to"))
    names = [inquiry.names.ours(text(end.get("name"), 200)) for end in (one, other)]
    if text(relation.get("type")) not in (DEPENDS, DEPENDED) or not names[0] or not names[1]:
        return None
    caller, callee = names if relation["type"] == DEPENDS else reversed(names)
    return (str(caller), str(callee)) if caller != callee else None
