"""What every connector is: a read-only source that answers a request with tables, files and gaps.

`collect_from` is the only way a connector is called: it holds the deadline, the size cap, the
masking of secrets, and the one broad `except` that turns a failure into a recorded gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import polars as pl

from faultline.analysis.case.rounds import FollowedKind, Lead
from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.redaction import BLOCKED, masked, masked_link, masked_value
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.check import Check as Check
from faultline.connectors.shared.contract.row_origins import KEYS, Rows, with_origins
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.rate_limiter import collecting

IDENTITY: Mapping[str, tuple[str, ...]] = {"changes": ("service", "id")}
"""What an item remembers of its rows, where that is not their service and signal."""


@dataclass(frozen=True)
class Request:
    """What is asked: evidence for this alert in this scope. Trace files are written below `files`.
    In rounds after the first the alert is about a service to which the evidence leads, and `leads`
    are all that the connector can follow."""

    alert: Alert
    scope: Scope
    files: Path
    round: int = 1
    leads: tuple[Lead, ...] = ()
    earlier: tuple[tuple[Alert, Scope], ...] = ()
    """What the same connector was asked about in the rounds before, first round first."""

    def subjects(self, kind: FollowedKind) -> list[str]:
        """The objects of a kind to which the evidence leads."""
        return [pointer.subject for pointer in self.leads if pointer.kind == kind]


@dataclass(frozen=True)
class Item:
    """One item of evidence before it has an id. `file` is relative to the request's `files`
    folder."""

    kind: EvidenceKind
    query: str
    window: Window | None = None
    link: str | None = None
    file: str | None = None
    rows: int | None = None
    bytes: int | None = None
    cut: str | None = None
    source: str | None = None
    """Whose evidence it is, where that is not the connector: a recorded item keeps its own
    source."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What the vendor says beyond the tables, as text: an alert's body, past incidents. Hostile."""
    services: tuple[str, ...] | None = None
    """Whom its rows are about; None where that is not told."""
    signals: tuple[str, ...] | None = None
    """Which signals its rows hold; None where that is not told."""
    changes: tuple[str, ...] | None = None
    """The ids of the changes that its rows are; None where that is not told."""
    rows_by_table: Mapping[str, Rows] = field(default_factory=dict, repr=False, compare=False)
    """Its log lines and spans by table, until the tables say which item each row came with."""

    def holding(self, rows: Rows) -> Item:
        """The same item, which says whose rows, which signals and which changes it brought, so
        that a finding cites its own query. Each row of log lines and spans knows its item.
        Rows are in the order of their table's columns.
        """
        columns = list(SCHEMAS[self.kind].columns)
        frame = rows if isinstance(rows, pl.DataFrame) else None
        values_by_column: dict[str, tuple[str, ...]] = {}
        for name in IDENTITY.get(self.kind, ("service", "signal")):
            if name not in columns:
                continue
            place = columns.index(name)
            values = frame[name].unique() if frame is not None else {row[place] for row in rows}
            values_by_column[name] = tuple(sorted(value for value in values if value is not None))
        return replace(
            self.bringing(self.kind, rows),
            services=values_by_column.get("service"),
            signals=values_by_column.get("signal"),
            changes=values_by_column.get("id"),
        )

    def bringing(self, table: str, rows: Rows) -> Item:
        """The same item, from which rows of that table come: of log lines and spans each row knows
        its item, also where that is of another kind."""
        if table not in KEYS:
            return self
        return replace(self, rows_by_table={**self.rows_by_table, table: rows})


@dataclass(frozen=True)
class Missing:
    """One item that could not be collected, before it has an id."""

    kind: EvidenceKind
    query: str
    reason: str
    source: str | None = None
    """As in `Item`."""
    unknown: bool = False
    """The server answered and knows nothing of the service that `query` names: another of the same
    vendor may."""


@dataclass(frozen=True)
class Collected:
    """What a connector brought: tables by name (see `faultline.analysis.case.tables`), items and
    what is missing."""

    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    missing: tuple[Missing, ...] = ()


class Connector(Protocol):
    """A source of evidence. It must not be able to write to the vendor."""

    @property
    def name(self) -> str:
        """The vendor's name, as in settings and evidence."""

    @property
    def kinds(self) -> tuple[EvidenceKind, ...]:
        """What it can bring; each becomes a gap when the connector fails."""

    @property
    def limits(self) -> Limits:
        """Its limits."""

    async def collect(self, request: Request) -> Collected:
        """Fetch the evidence for one alert. May raise; see `collect_from`."""

    async def check(self) -> Check:
        """Is it reachable, allowed, and read-only?"""


async def collect_from(connector: Connector, request: Request) -> Collected:
    """Collect under the connector's limits.

    A failure becomes a gap for each kind that the connector would have brought.
    """
    limits = connector.limits
    within = f"{limits.deadline_s:g} s"
    has_slot = False
    try:
        # The wait for a slot counts too: the investigation has only this much time.
        async with asyncio.timeout(limits.deadline_s), collecting(connector.name, limits):
            has_slot = True
            collected = await connector.collect(request)
    except TimeoutError:
        reason = f"no answer within {within}" if has_slot else f"no free slot within {within}"
        return _nothing(connector, reason)
    except FaultlineError as error:
        return _nothing(connector, str(error))
    except Exception as error:  # noqa: BLE001  the edge of a connector step: recorded as a gap
        return _nothing(connector, f"internal error ({type(error).__name__})")
    # Masking reads every line of every table, which would block the event loop.
    return await asyncio.to_thread(for_storage, _within_limits(collected, limits))


def _nothing(connector: Connector, reason: str) -> Collected:
    missing = tuple(Missing(kind, connector.name, masked(reason)) for kind in connector.kinds)
    return Collected(missing=missing)


def _within_limits(collected: Collected, limits: Limits) -> Collected:
    # Cap here, whatever a connector does: one of another package may ignore its limits.
    tables = dict(collected.tables)
    missing = list(collected.missing)
    for name, table in collected.tables.items():
        left_out = table.height - limits.max_rows
        if left_out <= 0:
            continue
        tables[name] = table.head(limits.max_rows)
        reason = f"{left_out} of {table.height} rows left out"
        missing.append(Missing(name, name, reason))  # type: ignore[arg-type]
    return Collected(tables, collected.items, tuple(missing))


def for_storage(collected: Collected) -> Collected:
    """Log lines and spans with the items they came with, and every text that a vendor wrote with
    the secrets in it masked: of tables, items and gaps. Rows that the operator blocks are left
    out, which becomes a gap."""
    tables: dict[str, pl.DataFrame] = {}
    missing: list[Missing] = []
    for name, table in collected.tables.items():
        # Lines are found again by what they say, so before anything in them is masked.
        sourced_table = _with_items(table, name, collected.items) if name in KEYS else table
        texts = [name for name in sourced_table.columns if sourced_table.schema[name] == pl.String]
        clean = sourced_table.with_columns(mask_column(sourced_table[name]) for name in texts)
        # A blocked text is all there is of it, so no other text looks like that.
        if any((clean[name] == BLOCKED).any() for name in texts):
            clean = clean.filter(~pl.any_horizontal(pl.col(texts).eq_missing(BLOCKED)))
        tables[name] = clean
        if tables[name].height < sourced_table.height:
            count = sourced_table.height - tables[name].height
            reason = f"{count} of {sourced_table.height} rows left out by a rule of [redaction]"
            missing.append(Missing(name, name, reason))  # type: ignore[arg-type]
    items = [_item_masked(item) for item in collected.items]
    missing = [
        # A vendor's error may quote the request, and a secret in it.
        replace(gap, query=masked(gap.query), reason=masked(gap.reason))
        for gap in collected.missing
    ] + missing
    return Collected(tables, tuple(items), tuple(missing))


def _item_masked(item: Item) -> Item:
    return replace(
        item,
        query=masked(item.query),
        link=masked_link(item.link) if item.link else item.link,
        cut=masked(item.cut) if item.cut else item.cut,
        details=masked_value(item.details),
        services=masked_value(item.services),
        signals=masked_value(item.signals),
        changes=masked_value(item.changes),
        # The tables know the origin of each row by now, and these rows are not masked.
        rows_by_table={},
    )


def _with_items(table: pl.DataFrame, name: str, items: Sequence[Item]) -> pl.DataFrame:
    item_rows = []
    for place, item in enumerate(items):
        if name in item.rows_by_table:
            item_rows.append((place, item.rows_by_table[name]))
    return with_origins(table, name, item_rows)


def require(condition: bool, vendor: str, call: str, problem: str) -> None:
    """Raise ConnectorError unless the vendor's answer has the shape that was expected."""
    if not condition:
        raise ConnectorError(vendor, call, problem)
