"""Asking a connector a query in its vendor's language, under the limits of a collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.abilities import AnswersQueries, BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Connector, Item, Request
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder
from faultline.connectors.shared.settings.connector_settings import Limits

REQUESTED_BY = {"asked_by": "the model"}
"""Details of the item that a query brings."""
LONGEST_SIGNAL = 120
RECORD = '{"row":"columns"}'
"""Attributes of a line that nobody logged: the columns of a row, as `name=value`."""


def answering(connectors: Iterable[Connector]) -> list[AnswersQueries]:
    """Those that take queries."""
    queries: list[AnswersQueries] = []
    for connector in connectors:
        if isinstance(connector, AnswersQueries) and connector.query_language:
            queries.append(connector)
    return queries


def asking(connector: AnswersQueries, query: BoundedQuery) -> Connector:
    """A connector that collects the answer to one query: `collect_from` then holds its deadline,
    its limits and the masking of secrets."""
    return _QueryConnector(connector, query)


def query_answer(
    kind: EvidenceKind,
    rows: Sequence[tuple[Any, ...]],
    query: BoundedQuery,
    link: str | None,
    cut: str | None,
) -> Collected:
    """The rows of a query with the one item that they came with."""
    collection = CollectionBuilder()
    count = collection.add(kind, rows)
    # No service and no signal: other findings must not cite what the model asked for.
    item = Item(
        kind,
        query.text,
        query.window,
        link,
        rows=count,
        cut=cut,
        details=REQUESTED_BY,
        services=(),
        signals=(),
    )
    collection.items.append(item)
    return collection.collected()


def first_points(
    rows: Sequence[tuple[Any, ...]], query: BoundedQuery
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Rows of `metrics` with as many points of each series as may come back, the earliest; and
    a note about the others."""
    remaining_rows: list[tuple[Any, ...]] = []
    counted: Counter[tuple[Any, ...]] = Counter()
    for row in sorted(rows, key=lambda row: row[0]):
        # Service, signal and labels tell one series from another.
        series = (row[1], row[2], row[5])
        counted[series] += 1
        if counted[series] <= query.points:
            remaining_rows.append(row)
    if len(remaining_rows) == len(rows):
        return remaining_rows, None
    return (
        remaining_rows,
        f"the first {query.points} points of each series: count by longer intervals",
    )


class _QueryConnector:
    def __init__(self, connector: AnswersQueries, query: BoundedQuery) -> None:
        self._connector = connector
        self._query = query
        self.name: str = connector.name
        self.kinds: tuple[EvidenceKind, ...] = connector.query_kinds
        self.limits: Limits = connector.limits

    async def collect(self, request: Request) -> Collected:
        """The answer, whatever the request."""
        return await self._connector.answer(self._query)

    async def check(self) -> Check:
        """Nothing to check: the connector itself does."""
        return Check(self.name, True, self.name)
