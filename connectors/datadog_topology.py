"""Who calls whom, from the relations of the software catalogue, those that APM has seen included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from connectors.base import Item
from connectors.datadog_calls import RELATIONS
from connectors.datadog_inquiry import Found, Inquiry
from connectors.datadog_values import table, text

PAGE = 100
MOST_ASKED = 4
"""Services whose relations are asked, in both directions each."""
DEPENDS, DEPENDED = "RelationTypeDependsOn", "RelationTypeDependencyOf"


class RelationsAnswer(msgspec.Struct):
    """A page of relations."""

    data: list[dict[str, Any]] | None = None


async def topology(inquiry: Inquiry) -> Found:
    """The edges from and to the first services in scope."""
    found = Found()
    for service in inquiry.services[:MOST_ASKED]:
        theirs = inquiry.names.of(service)
        for side in ("filter_from_ref", "filter_to_ref"):
            given: dict[str, Any] = {side: f"service:{theirs}", "page_limit": PAGE, "include_discovered": True}
            answer = await inquiry.ask(RELATIONS, RelationsAnswer, **given)
            data = answer.data or []
            edges = [edge for one in data if (edge := _edge(inquiry, table(one.get("attributes")))) is not None]
            cut = f"only the first {PAGE} relations were asked" if len(data) >= PAGE else None
            query = f"relations, {side.removeprefix('filter_')}=service:{theirs}"
            count, link = found.add("topology", edges), inquiry.links.service(theirs)
            found.items.append(Item("topology", query, link=link, rows=count, cut=cut))
    return found


def _edge(inquiry: Inquiry, relation: Mapping[str, Any]) -> tuple[str, str] | None:
    one, other = table(relation.get("from")), table(relation.get("to"))
    names = [inquiry.names.ours(text(end.get("name"), 200)) for end in (one, other)]
    if text(relation.get("type")) not in (DEPENDS, DEPENDED) or not names[0] or not names[1]:
        return None
    caller, callee = names if relation["type"] == DEPENDS else reversed(names)
    return (str(caller), str(callee)) if caller != callee else None
