"""Facts of databases as tests compare them."""

from __future__ import annotations

from faultline.connectors.shared.databases.database_server import Fact

FactRow = tuple[str, str, float | None, str | None]


def fact_rows(facts: list[Fact]) -> list[FactRow]:
    """Each fact's name and value, since when, and the field that says so."""
    return [(fact.name, fact.value, fact.since_s, fact.field) for fact in facts]
