"""Collect: what each connector brought becomes a part of the case; the parts become the case
folder.

A part is stored whole before its step ends, so that a step run twice, or on another machine, gives
the same case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from faultline.analysis.alert_signal.queried_series import with_signal
from faultline.analysis.case.alert_place import place_of
from faultline.analysis.case.folder import json_bytes, write_evidence, write_json
from faultline.analysis.case.readable_rows import readable_rows
from faultline.analysis.case.rounds import Lead
from faultline.analysis.case.tables import (
    ALERT_QUERY,
    CHANGES,
    LOGS,
    METRICS,
    ORIGIN,
    SCHEMAS,
    conform,
    gap_of,
    read_table,
    write_table,
)
from faultline.analysis.errors import EvidenceError
from faultline.analysis.kinds.place_names import place_in
from faultline.analysis.vocabulary import Alert, Evidence, EvidenceKind, Gap, Scope, Window
from faultline.bot.investigation.reading_traces import with_exports
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.case_store import PARTS, CaseStore
from faultline.bot.store.changes import MOST_READ, ReportedChange, ReportedChanges
from faultline.connectors.shared.changes.same_rollouts import (
    with_joined_rollouts,
    without_observed,
)
from faultline.connectors.shared.contract.base import (
    Check,
    Collected,
    Connector,
    Item,
    Missing,
    Request,
    collect_from,
)
from faultline.connectors.shared.contract.instances import vendor_in
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, nanoseconds
from faultline.connectors.shared.rows.log_windows import (
    logged_elsewhere,
    marked_items,
    without_services,
)
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.kubernetes import CONNECTOR as KUBERNETES
from faultline.connectors.vendors.prometheus import CONNECTOR as PROMETHEUS

_OF_ITEMS = {field.name for field in fields(Item)} & set(Evidence.model_fields)


class CollectionPart(BaseModel):
    """Everything one connector brought; items and gaps get their ids when the case is put
    together."""

    connector: str
    round: int = 1
    items: list[Evidence]
    gaps: list[Gap]
    tables: list[str]
    files: list[str]
    unknown: list[tuple[EvidenceKind, str]] = []
    """Kind and query of the gaps that mean a service which the server does not know."""

    @property
    def name(self) -> str:
        """Where it lies below parts/."""
        return part_name(self.connector, self.round)

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        phrase = f"{len(self.items)} item{'s' if len(self.items) != 1 else ''}"
        missing = f", {len(self.gaps)} missing: {self.gaps[0].reason}" if self.gaps else ""
        return f"{self.connector}: {phrase}{missing}"


def part_name(connector: str, round_number: int) -> str:
    """Where what a connector brought in a round lies below parts/."""
    return connector if round_number == 1 else f"round-{round_number}/{connector}"


async def collect_part(
    connector: Connector,
    alert: Alert,
    scope: Scope,
    cases: CaseStore,
    case_id: str,
    round_number: int = 1,
    leads: tuple[Lead, ...] = (),
    earlier: tuple[tuple[Alert, Scope], ...] = (),
) -> CollectionPart:
    """Ask one connector and store what it brought under parts/."""
    with tempfile.TemporaryDirectory(prefix="faultline-collect-") as scratch:
        folder = Path(scratch)
        files = folder / "files"
        files.mkdir()
        request = Request(alert, scope, files, round_number, leads, earlier)
        collected = await collect_from(connector, request)
        collected = await in_thread(with_exports, collected, files)
        return await in_thread(
            store_part, connector.name, collected, folder, cases, case_id, round_number
        )


def store_nothing(
    connector: str, kinds: Sequence[EvidenceKind], cases: CaseStore, case_id: str
) -> CollectionPart:
    """The part of a connector that was taken out of the settings after the investigation had begun:
    its gaps."""
    gaps = [
        Gap(id="", kind=k, source=connector, query=connector, reason="is not configured any more")
        for k in kinds
    ]
    part = CollectionPart(connector=connector, items=[], gaps=gaps, tables=[], files=[])
    cases.put(case_id, f"{PARTS}/{connector}/part.json", json_bytes(part))
    return part


def store_part(
    connector: str,
    collected: Collected,
    folder: Path,
    cases: CaseStore,
    case_id: str,
    round_number: int = 1,
) -> CollectionPart:
    """Store what was collected, with the files below `folder`/files, under parts/."""
    part = part_of(connector, collected, folder / "files", folder, round_number)
    write_json(folder / "part.json", part)
    cases.put_folder(case_id, f"{PARTS}/{part.name}", folder)
    return part


def part_of(
    name: str, collected: Collected, files: Path, folder: Path, round_number: int = 1
) -> CollectionPart:
    """What was collected as a part; its tables are written into `folder`."""
    # A lead that a source does not know is no gap: it may be known elsewhere, or be none of ours.
    missing = [gap for gap in collected.missing if round_number == 1 or not gap.unknown]
    gaps = [_gap(name, gap) for gap in missing]
    tables = []
    for table, rows in sorted(collected.tables.items()):
        try:
            reading = readable_rows(rows, SCHEMAS[table], f"{table}.parquet")
            reason = gap_of(reading, table)
            if reason is not None:
                gaps.append(Gap(id="", kind=table, source=name, query=name, reason=reason))
            if reading.rows.height:
                write_table(folder, table, reading.rows)
                tables.append(table)
        # One unreadable table must not cost the others.
        except EvidenceError as error:
            gaps.append(Gap(id="", kind=table, source=name, query=name, reason=str(error)))
    posixes = sorted(p.relative_to(files).as_posix() for p in files.rglob("*") if p.is_file())
    return CollectionPart(
        connector=name,
        round=round_number,
        items=[_item(name, item, round_number) for item in collected.items],
        gaps=gaps,
        tables=tables,
        files=posixes,
        unknown=[(gap.kind, gap.query) for gap in missing if gap.unknown],
    )


def _item(connector: str, item: Item, round_number: int) -> Evidence:
    values = {name: getattr(item, name) for name in _OF_ITEMS}
    if round_number > 1:
        values["round"] = round_number
    case_file: str | None
    if item.kind == "traces":
        case_file = f"traces/{item.file}" if item.file else "traces"
    else:
        case_file = f"{item.kind}.parquet" if item.kind in SCHEMAS else None
    return Evidence(**{**values, "id": "", "source": item.source or connector, "file": case_file})


def _gap(connector: str, missing: Missing) -> Gap:
    source = missing.source or connector
    return Gap(id="", kind=missing.kind, source=source, query=missing.query, reason=missing.reason)


def assemble(
    alert: Alert, scope: Scope, names: Sequence[str], cases: CaseStore, case_id: str
) -> Scope:
    """Put the parts together, in their order, into the case folder; gives the scope as written.
    `names`: as `part_name` gives them."""
    parts = [read_part(cases, case_id, name) for name in names]
    connectors = tuple(dict.fromkeys(part.connector for part in parts))
    scope = scope.model_copy(update={"connectors": connectors})
    with tempfile.TemporaryDirectory(prefix="faultline-case-") as scratch:
        folder = Path(scratch)
        write_json(folder / "scope.json", scope)
        logged: frozenset[str] = frozenset()
        # Rows refer to items by id, so the ids must be known before the tables are joined.
        ids = _item_ids(parts)
        for table in SCHEMAS:
            matching_parts = [part for part in parts if table in part.tables]
            logged |= _join(table, matching_parts, ids, cases, case_id, folder)
        whole = [_with_shared_logs(_without_covered_gaps(p, parts, folder), logged) for p in parts]
        write_evidence(folder, *_number(whole))
        # Which series the alert means can only be said once they are there.
        metrics = read_table(folder, METRICS.name)
        queried = read_table(folder, ALERT_QUERY.name)
        named, with_query = with_signal(alert, metrics, queried, scope)
        if with_query.height > metrics.height:
            write_table(folder, METRICS.name, with_query)
        write_json(folder / "alert.json", named)
        for path in sorted(folder.iterdir()):
            cases.put(case_id, path.name, path)
    for part in parts:
        for file in part.files:
            cases.move(case_id, f"{PARTS}/{part.name}/files/{file}", f"traces/{file}")
    return scope


def read_part(cases: CaseStore, case_id: str, name: str) -> CollectionPart:
    """What a connector brought. Raises EvidenceError when its part is not in the store."""
    stored = cases.get(case_id, f"{PARTS}/{name}/part.json")
    if stored is None:
        raise EvidenceError(f"{PARTS}/{name}/part.json", "is missing from the case store")
    return CollectionPart.model_validate_json(stored)


def _without_covered_gaps(
    part: CollectionPart, parts: Sequence[CollectionPart], folder: Path
) -> CollectionPart:
    """The part without gaps for services that another server of its vendor knows. With a server for
    each cluster, most of them do not know a service that runs in one."""
    vendors = [vendor_in(part.connector) for part in parts]
    if vendors.count(vendor_in(part.connector)) < 2:
        return part
    gaps: list[Gap] = []
    for gap in part.gaps:
        is_unknown = (gap.kind, gap.query) in part.unknown and gap.kind in SCHEMAS
        if not (is_unknown and bool((read_table(folder, gap.kind)["service"] == gap.query).any())):
            gaps.append(gap)
    return part.model_copy(update={"gaps": gaps})


def _with_shared_logs(part: CollectionPart, logged: frozenset[str]) -> CollectionPart:
    """The part, with a mark on a cluster's container logs that others brought, too."""
    if vendor_in(part.connector) != KUBERNETES.name:
        return part
    return part.model_copy(update={"items": marked_items(part.items, logged)})


def _number(parts: Iterable[CollectionPart]) -> tuple[list[Evidence], list[Gap]]:
    items = [item for part in parts for item in part.items]
    gaps = [gap for part in parts for gap in part.gaps]
    return (
        [item.model_copy(update={"id": f"E{n}"}) for n, item in enumerate(items, start=1)],
        [gap.model_copy(update={"id": f"G{n}"}) for n, gap in enumerate(gaps, start=1)],
    )


def _item_ids(parts: Iterable[CollectionPart]) -> dict[str, list[str]]:
    """The ids that each part's items get, by its name."""
    ids: dict[str, list[str]] = {}
    first = 1
    for part in parts:
        ids[part.name] = [f"E{first + place}" for place in range(len(part.items))]
        first += len(part.items)
    return ids


def with_item_ids(rows: pl.DataFrame, ids: Sequence[str]) -> pl.DataFrame:
    """The rows of a part, which know their items by place, with the ids of the items."""
    if ORIGIN not in rows.columns:
        return rows
    by_place = {str(place): item_id for place, item_id in enumerate(ids)}
    origin = pl.col(ORIGIN).replace_strict(by_place, default=None, return_dtype=pl.String)
    return rows.with_columns(origin)


def distinct_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without those that came twice; the first says which item it came with."""
    columns = [column for column in rows.columns if column != ORIGIN]
    return rows.unique(columns, keep="first", maintain_order=True)


def _join(
    table: str,
    parts: Sequence[CollectionPart],
    ids: Mapping[str, Sequence[str]],
    cases: CaseStore,
    case_id: str,
    folder: Path,
) -> frozenset[str]:
    """Write the rows of all parts. For log lines, returns the services whose lines a source other
    than a cluster collects."""
    clusters: list[pl.DataFrame] = []
    frames: list[pl.DataFrame] = []
    measured: list[pl.DataFrame] = []
    for part in parts:
        file = f"{part.name}/{table}.parquet"
        stored = cases.get(case_id, f"{PARTS}/{file}")
        if stored is None:
            continue
        frame = with_item_ids(conform(pl.read_parquet(stored), table, file), ids[part.name])
        is_cluster = vendor_in(part.connector) == KUBERNETES.name
        # Apart, because a cluster reports some rows that other sources report as well.
        if table == CHANGES.name and vendor_in(part.connector) == PROMETHEUS.name:
            measured.append(frame)
        else:
            (clusters if is_cluster else frames).append(frame)
    clusters += [without_observed(frame, clusters) for frame in measured]
    logged: frozenset[str] = frozenset()
    if table == LOGS.name and clusters:
        logged = logged_elsewhere(pl.concat(clusters), frames)
    if clusters or frames:
        # All rows of a table, but those that a cluster reports a second time.
        if not clusters:
            joined = pl.concat(frames)
        else:
            cluster = pl.concat(clusters)
            if table == CHANGES.name:
                joined = with_joined_rollouts(cluster, frames)
            else:
                if table == LOGS.name:
                    cluster = without_services(cluster, logged)
                joined = pl.concat([*frames, cluster])
        write_table(folder, table, distinct_rows(joined))
    return logged


# Changes that were reported to the bot, as a source of evidence.

LIMITS = Limits()


class ReportedChangesConnector:
    """What `POST /changes` and webhooks that map to changes took.

    It is asked in every investigation, as a worker need not know the tokens of those who report,
    and says nothing where nothing was ever reported.
    """

    name = "changes"
    kinds: tuple[EvidenceKind, ...] = ("changes",)
    limits = LIMITS

    def __init__(self, changes: ReportedChanges) -> None:
        self._changes = changes

    async def collect(self, request: Request) -> Collected:
        """The changes since the first baseline began, but those of another environment, cluster or
        region than the alert's."""
        # Where nothing was ever reported, an empty result does not mean that nothing changed.
        if not await in_store(self._changes.any):
            return Collected()
        scope = request.scope
        start = min(period.start for period in (scope.incident, *scope.baseline))
        window = Window(start=start, end=scope.incident.end)
        changes = await in_store(self._changes.between, window.start, window.end)
        place = place_of(request.alert)
        relevant_changes = [change for change in changes if _may_concern(change, place)]
        builder = CollectionBuilder()
        rows = [_row(change) for change in relevant_changes]
        count = builder.add("changes", rows)
        cut = f"the latest {MOST_READ:,}" if len(changes) >= MOST_READ else None
        item = Item("changes", "reported changes", window, rows=count, cut=cut)
        builder.items.append(item.holding(rows))
        return builder.collected()

    async def check(self) -> Check:
        """The store is checked by itself."""
        return Check(self.name, True, "changes are taken at /changes")


def _may_concern(change: ReportedChange, place: Mapping[str, str]) -> bool:
    """Whether it may concern the alert's place: false only where both name one and they differ."""
    made = place_in(change.place)
    return all(made.get(kind, value) == value for kind, value in place.items())


def _row(change: ReportedChange) -> tuple[Any, ...]:
    return (
        nanoseconds(change.at),
        change.service,
        change.kind,
        change.id,
        change.title,
        change.author or None,
        change.link or None,
        change.files or None,
        change.diff or None,
        change.before or None,
        change.after or None,
    )
