"""The bench: the case as the model's tools see it, with what was asked for in the meantime.

The case folder itself stays as it is until the conversation ends: new evidence is merged into a
working copy, which is analysed again by the same code. Findings keep the ids that the model
has seen.

A query whose text the model wrote is different: its item and its rows are kept, but its rows enter
no table, so that no model can bring about a finding that accuses.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from faultline.analysis.case.folder import Case, json_bytes, read_case, write_evidence, write_json
from faultline.analysis.case.observations import MAX_OBSERVATIONS, OBSERVATIONS_FILE, Observations
from faultline.analysis.case.tables import SCHEMAS, read_table, write_table
from faultline.analysis.case.windows import citing_matching_rows
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.traces.job.trace_versions import SUMMARIES, TRACES
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Finding, Gap, Scope
from faultline.bot.answer.finding_ids import with_stable_ids
from faultline.bot.investigation.analyzing import analyze_case
from faultline.bot.investigation.collecting import (
    CollectionPart,
    distinct_rows,
    part_of,
    with_item_ids,
)
from faultline.bot.runtime.threads import in_thread
from faultline.connectors.shared.contract.abilities import AnswersQueries, BoundedQuery
from faultline.connectors.shared.contract.base import (
    Collected,
    Connector,
    Item,
    Missing,
    Request,
    collect_from,
)
from faultline.connectors.shared.queries.querying import answering, asking

E = TypeVar("E", Evidence, Gap)
Run = Callable[[Callable[[Path], Any], Path], Awaitable[Any]]
"""Runs a function of a case folder where it keeps nobody waiting: `ProcessPool.run`, or
`in_a_thread`."""
Keep = Callable[[str, bytes], None]
"""Stores one file of the case by its name inside the case. Blocks."""

ASKS = "asks"
ANSWERS = "answer"
"""Begin of the names of tables that a query of the model's own brought."""
COPIED = (
    "alert.json",
    "scope.json",
    "evidence.json",
    "earlier.json",
    "runbooks.json",
    OBSERVATIONS_FILE,
)
"""Files of a case beside its tables that its analysis reads."""


@dataclass(frozen=True)
class NewEvidence:
    """What a new query returned: rows by table, evidence we could not collect, and new findings."""

    ask: str
    rows: Mapping[str, int]
    gaps: tuple[Gap, ...]
    evidence: tuple[Evidence, ...]
    new: tuple[Finding, ...]
    before: Diagnosis
    after: Diagnosis


@dataclass(frozen=True)
class QueryAnswer:
    """What a query of the model's own brought. Its rows enter no table of the case."""

    ask: str
    evidence: Evidence | None
    gaps: tuple[Gap, ...]
    tables: Mapping[str, pl.DataFrame]


class InOrder:
    """Places in a queue, so that what is begun side by side is finished in its order."""

    def __init__(self) -> None:
        self._last: asyncio.Event | None = None

    @contextmanager
    def place(self) -> Iterator[Callable[[], Awaitable[object]]]:
        """The next place. What it gives waits until everybody before it has left."""
        before, exit_event = self._last, asyncio.Event()
        self._last = exit_event

        async def after_those_before() -> None:
            if before is not None:
                await before.wait()

        try:
            yield after_those_before
        finally:
            exit_event.set()


@dataclass
class ModelSession:
    """The state of one conversation's case. `folder` is read, `work` is written; `store` is where
    asks are kept."""

    folder: Path
    work: Path
    diagnosis: Diagnosis
    run: Run
    store: str
    keep: Keep
    connectors: Sequence[Connector] = ()
    more_services: Sequence[str] = ()
    """Of the service catalogue."""
    queries: bool = True
    """Whether the model may ask connectors in their own query languages."""
    case: Case = field(init=False)
    names: dict[str, str] = field(default_factory=dict)
    """Ids that the model has seen, and their ids in the diagnosis of the working copy."""
    observations: list[Finding] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    answers: dict[str, QueryAnswer] = field(default_factory=dict)
    """Of the model's own queries, by the name of the ask."""
    _begun: int = 0
    _order: InOrder = field(default_factory=InOrder)
    _merging: asyncio.Lock = field(default_factory=asyncio.Lock)
    _numbering: threading.Lock = field(default_factory=threading.Lock)
    _taken: set[str] = field(default_factory=set)
    _initial_diagnosis: Diagnosis = field(init=False)

    def __post_init__(self) -> None:
        self._initial_diagnosis = self.diagnosis
        self.start_over()

    def start_over(self) -> None:
        """As the case was found."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.case, self.diagnosis, self.asks = read_case(self.folder), self._initial_diagnosis, []
        self.observations = list(self.case.observations.findings)
        self.answers, self._begun = {}, 0
        self.names = {f.id: f.id for f in self.diagnosis.findings}
        self._taken = set(self.names)

    @property
    def initial_diagnosis(self) -> Diagnosis:
        """As the case was decided when the conversation began."""
        return self._initial_diagnosis

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that may be cited now."""
        ids = {f.id for f in self.diagnosis.findings}
        return (*self.diagnosis.findings, *(o for o in self.observations if o.id not in ids))

    @property
    def whole(self) -> Diagnosis:
        """The diagnosis with what was looked at."""
        return self.diagnosis.model_copy(update={"findings": self.findings})

    @property
    def answering(self) -> list[AnswersQueries]:
        """Connectors that take the model's own queries."""
        return answering(self.connectors) if self.queries else []

    def services(self) -> set[str]:
        """Every service that the case or the catalogue knows: no other may be asked for."""
        services = {
            *self.case.scope.services,
            *self.more_services,
            *read_topology(self.case).services,
        }
        services |= {f.subject for f in self.diagnosis.findings} | {self.case.alert.service or ""}
        for table in (self.case.metrics, self.case.logs, self.case.spans, self.case.changes):
            services |= set(table["service"].drop_nulls().unique().to_list())
        return {name for name in services if name}

    def observe(self, finding: Finding) -> Finding:
        """The observation with its id; one that says the same as an earlier one has that one's
        id."""
        (finding,) = citing_matching_rows([finding], self.case)
        with self._numbering:
            for observation in self.observations:
                # Whether two observations say the same of the same rows.
                if (observation.subject, observation.signal, observation.sentence) != (
                    finding.subject,
                    finding.signal,
                    finding.sentence,
                ):
                    same_row = False
                else:
                    same_row = (
                        observation.details == finding.details
                        and observation.numbers == finding.numbers
                    )
                if same_row:
                    return observation
            if len(self.observations) >= MAX_OBSERVATIONS:
                return finding
            ids = (int(o.id[1:]) for o in self.observations if o.id[1:].isdecimal())
            numbered = finding.model_copy(update={"id": f"L{max(ids, default=0) + 1}"})
            self.observations.append(numbered)
            return numbered

    @property
    def queries_made(self) -> int:
        """New queries that were begun."""
        return self._begun

    async def ask(self, connector: Connector, alert: Alert, scope: Scope) -> NewEvidence:
        """One new query through a connector, under its own limits; what it brings is merged and
        analysed."""
        with self._order.place() as after_those_before:
            name, place = await self._begin()
            collected = without_traces(
                await collect_from(connector, Request(alert, scope, place / "files"))
            )
            await after_those_before()
            async with self._merging:
                part = await in_thread(self._store, name, connector.name, collected, place)
                return await self._merge(name, part, place)

    async def query(self, connector: AnswersQueries, query: BoundedQuery) -> QueryAnswer:
        """A query of the model's own, under the connector's limits. What it brings becomes
        evidence; one that fails leaves nothing, and its reason is among the gaps."""
        with self._order.place() as after_those_before:
            name, place = await self._begin()
            request = Request(self.case.alert, self.case.scope, place / "files")
            collected = await collect_from(asking(connector, query), request)
            await after_those_before()
            if not collected.items:
                gaps = (_gap_of(connector.name, missing) for missing in collected.missing)
                return QueryAnswer("", None, tuple(gaps), {})
            async with self._merging:
                await in_thread(self._store_answer, name, connector.name, collected, place)
                return await self._merge_answer(name, place)

    async def _begin(self) -> tuple[str, Path]:
        self._begun += 1
        name = f"ask-{self._begun}"
        place = self.work.parent / ASKS / name
        await in_thread(_empty_folder, place)
        return name, place

    async def restore(self, name: str) -> None:
        """The same from what an earlier worker stored. Raises EvidenceError or OSError when that is
        not there."""
        place = self.folder / self.store / ASKS / name
        self._begun = max(self._begun, int(name.rpartition("-")[2]))
        # The mark of a query of the model's own, whose rows must enter no table.
        if (place / ANSWERS).exists():
            await self._merge_answer(name, place)
            return
        part = CollectionPart.model_validate_json(await in_thread((place / "part.json").read_bytes))
        await self._merge(name, part, place)

    def _store(
        self, name: str, connector: str, collected: Collected, place: Path
    ) -> CollectionPart:
        part = part_of(connector, collected, place / "files", place)
        self._keep(name, part, place)
        return part

    def _store_answer(
        self, name: str, connector: str, collected: Collected, place: Path
    ) -> CollectionPart:
        part = part_of(connector, collected, place / "files", place)
        for table in part.tables:
            (place / f"{table}.parquet").rename(place / f"{ANSWERS}-{table}.parquet")
        (place / ANSWERS).touch()
        part = part.model_copy(update={"tables": []})
        self._keep(name, part, place)
        return part

    def _keep(self, name: str, part: CollectionPart, place: Path) -> None:
        write_json(place / "part.json", part)
        for file in sorted(p for p in place.iterdir() if p.is_file()):
            self.keep(f"{self.store}/{ASKS}/{name}/{file.name}", file.read_bytes())

    async def _merge_answer(self, name: str, place: Path) -> QueryAnswer:
        part = CollectionPart.model_validate_json(await in_thread((place / "part.json").read_bytes))
        _, gaps = await in_thread(self._merged, part, place)
        self.asks.append(name)
        tables = await in_thread(_answered_tables, place)
        evidence = (e for e in reversed(self.case.evidence) if part.items)
        item = next((e for e in evidence if _without_id(e) == _without_id(part.items[0])), None)
        self.answers[name] = QueryAnswer(name, item, gaps, tables)
        return self.answers[name]

    async def _merge(self, name: str, part: CollectionPart, place: Path) -> NewEvidence:
        before = self.diagnosis
        merged = await in_thread(self._merged, part, place)
        self.asks.append(name)
        fresh = await self.run(analyze_case, self.work)
        self.diagnosis, current_ids = with_stable_ids(before, fresh, self._taken)
        # An id whose finding is gone names nothing, and no other finding gets it.
        self.names = {**dict.fromkeys(self._taken - set(current_ids), ""), **current_ids}
        ids = {f.id for f in before.findings}
        self._taken |= {f.id for f in self.diagnosis.findings}
        new = tuple(f for f in self.diagnosis.findings if f.id not in ids)
        rows = {
            t: pl.scan_parquet(place / f"{t}.parquet").select(pl.len()).collect().item()
            for t in part.tables
        }
        return NewEvidence(name, rows, merged[1], merged[0], new, before, self.diagnosis)

    def _merged(
        self, part: CollectionPart, place: Path
    ) -> tuple[tuple[Evidence, ...], tuple[Gap, ...]]:
        if not (self.work / "alert.json").exists():
            working_copy(self.folder, self.work)
        case = read_case(self.work)
        evidence = _appended(case.evidence, part.items, "E")
        # An item that was known keeps its id.
        ids_by_content = {_without_id(item): item.id for item in reversed(evidence)}
        ids = [ids_by_content[_without_id(item)] for item in part.items]
        staged = self.work.parent / "merged"
        staged.mkdir(exist_ok=True)
        for table in part.tables:
            new = with_item_ids(read_table(place, table), ids)
            rows = distinct_rows(pl.concat([read_table(self.work, table), new]))
            # In one step: another tool may be reading the table.
            written = write_table(staged, table, rows)
            written.replace(self.work / written.name)
        gaps = _appended(case.gaps, part.gaps, "G")
        write_evidence(self.work, evidence, gaps)
        merged = read_case(self.work)
        # Read before the next merge writes these files again.
        for table in SCHEMAS:
            getattr(merged, table)
        self.case = merged
        return evidence[len(case.evidence) :], gaps[len(case.gaps) :]

    async def settled(self, cited: Sequence[str]) -> tuple[Diagnosis, dict[str, bytes]] | None:
        """The final diagnosis and the files of the case that changed; None when nothing was added.

        `cited` are the observations that are kept.
        """
        observations = tuple(o for o in self.observations if o.id in cited)
        if not self.asks and observations == self.case.observations.findings:
            return None
        if not (self.work / "alert.json").exists():
            await in_thread(working_copy, self.folder, self.work)
        write_json(self.work / OBSERVATIONS_FILE, Observations(findings=observations))
        diagnosis = await self.run(analyze_case, self.work)
        # Named again: a call that ran out of time may have added evidence whose findings it did
        # not see.
        _, self.names = with_stable_ids(self.diagnosis, diagnosis, self._taken)
        changed = [
            OBSERVATIONS_FILE,
            *(["evidence.json", *(f"{t}.parquet" for t in SCHEMAS)] if self.asks else []),
        ]
        files = {n: (self.work / n).read_bytes() for n in changed if (self.work / n).exists()}
        return diagnosis, files | {"findings.json": json_bytes(diagnosis)}


def _gap_of(source: str, missing: Missing) -> Gap:
    return Gap(id="", kind=missing.kind, source=source, query=missing.query, reason=missing.reason)


def _answered_tables(place: Path) -> dict[str, pl.DataFrame]:
    tables = {}
    for path in sorted(place.glob(f"{ANSWERS}-*.parquet")):
        tables[path.stem.removeprefix(f"{ANSWERS}-")] = pl.read_parquet(path)
    return tables


def _empty_folder(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    (place / "files").mkdir(parents=True)


def working_copy(folder: Path, work: Path) -> None:
    """What the analysis reads of a case, in a folder that may be written; trace files are only
    linked to."""
    work.mkdir(parents=True, exist_ok=True)
    tables = [f"{t}{suffix}" for t in SCHEMAS for suffix in (".parquet", ".csv", ".jsonl")]
    for name in (*tables, *COPIED):
        if name != "alert.json" and (folder / name).is_file():
            shutil.copyfile(folder / name, work / name)
    for name in (TRACES, SUMMARIES):
        if (folder / name).is_dir() and not (work / name).exists():
            (work / name).symlink_to((folder / name).resolve(), target_is_directory=True)
    # Copied last: its presence says that the copy is whole.
    shutil.copyfile(folder / "alert.json", work / "alert.json")


def without_traces(collected: Collected) -> Collected:
    """Files of training jobs are collected once, at the start; a model cannot ask for more of
    them."""
    items: tuple[Item, ...] = tuple(i for i in collected.items if i.kind != "traces")
    missing: tuple[Missing, ...] = tuple(m for m in collected.missing if m.kind != "traces")
    return Collected(collected.tables, items, missing)


def _appended(existing_items: Sequence[E], new: Sequence[E], letter: str) -> tuple[E, ...]:
    """The known items, then those that are not among them, with the next numbers."""
    have = {_without_id(item) for item in existing_items}
    fresh = [item for item in new if _without_id(item) not in have]
    first = max((int(i.id[1:]) for i in existing_items if i.id[1:].isdecimal()), default=0) + 1
    numbered = list(existing_items)
    for n, item in enumerate(fresh, start=first):
        numbered.append(item.model_copy(update={"id": f"{letter}{n}"}))
    return tuple(numbered)


def _without_id(item: Evidence | Gap) -> str:
    return item.model_copy(update={"id": ""}).model_dump_json()


async def in_a_thread(function: Callable[[Path], Any], folder: Path) -> Any:
    """For whoever has no pool of processes."""
    return await in_thread(function, folder)
