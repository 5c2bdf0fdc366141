"""Rows of the table `states` about resources."""

from __future__ import annotations

from datetime import datetime

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import BY_KIND


def resource_state(
    resource: Resource,
    fact: str,
    field: str,
    value: str,
    query: str,
    *,
    expected: str | None = None,
    since: datetime | None = None,
    link: str | None = None,
    part: tuple[str, str] | None = None,
) -> StateRow:
    """One thing that is wrong with a resource, or with a `part` of it: kind and name."""
    kind, name = part or (BY_KIND[resource.kind].object, resource.name)
    return StateRow(
        kind=kind,
        name=name,
        fact=fact,
        service=resource.service,
        field=field,
        value=value or None,
        expected=expected,
        since=since,
        query=query,
        link=link,
    )
