"""The case folder: the one interface between collecting and analyzing.

Only alert.json is required. Reading never touches label.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel, ValidationError

from faultline.analysis.case.calls import CALLS_FILE, CallList, ServiceCall
from faultline.analysis.case.earlier import EARLIER_FILE, Earlier
from faultline.analysis.case.observations import OBSERVATIONS_FILE, Observations
from faultline.analysis.case.rounds import ROUNDS_FILE, Rounds
from faultline.analysis.case.runbooks import RUNBOOKS_FILE, AppliedRunbooks
from faultline.analysis.case.tables import (
    MAX_JSON_BYTES,
    SCHEMAS,
    check_regular,
    empty,
    gap_of,
    is_there,
    leads_inside,
    read_rows,
    table_file,
    was_checked,
)
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, Report, Scope, Window

FOLDER = "case folder"
"""The source of a gap that reading the folder itself found."""
DEFAULT_INCIDENT = timedelta(minutes=30)
DEFAULT_BASELINE = timedelta(hours=2)
"""Windows assumed for a case without scope.json: 30 minutes from the alert, 2 hours before it."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class TableReading:
    """A table, and why some or all of its rows are missing."""

    rows: pl.DataFrame
    problem: str | None = None


@dataclass(frozen=True)
class Case:
    """A case folder that has been read. Tables are read on first use and kept.

    A row that cannot be read is left out and becomes a gap; so does a whole file, unless it is the
    only evidence: then EvidenceError is raised.
    """

    path: Path
    alert: Alert
    scope: Scope
    evidence: tuple[Evidence, ...] = ()
    recorded_gaps: tuple[Gap, ...] = ()
    """What could not be collected."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be collected, and what of the collected cannot be read."""
        return (*self.recorded_gaps, *self._unreadable, *self._not_followed)

    @property
    def lost(self) -> tuple[Gap, ...]:
        """The gaps without those of single series of a source that brought others: samples that are
        no numbers, a query that failed."""
        answered = {item.source for item in self.evidence if item.kind == "metrics"}
        if self.metrics.height:
            # Of a table that can be read only rows are missing.
            answered.add(FOLDER)
        return tuple(
            gap for gap in self.gaps if gap.kind != "metrics" or gap.source not in answered
        )

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """time, service, signal, value; unit, labels."""
        return self._read("metrics").rows

    @cached_property
    def logs(self) -> pl.DataFrame:
        """time, service, message; level, trace_id, attributes, evidence."""
        return self._read("logs").rows

    @cached_property
    def spans(self) -> pl.DataFrame:
        """trace_id, span_id, parent_id, service, operation, start, duration_us; status,
        attributes, evidence."""
        return self._read("spans").rows

    @cached_property
    def changes(self) -> pl.DataFrame:
        """time, service, kind, id, title; author, link, files, diff."""
        return self._read("changes").rows

    @cached_property
    def topology(self) -> pl.DataFrame:
        """caller, callee; source, last_seen, learned_in."""
        return self._read("topology").rows

    @cached_property
    def monitors(self) -> pl.DataFrame:
        """monitor, service, state, since; link."""
        return self._read("monitors").rows

    @cached_property
    def states(self) -> pl.DataFrame:
        """kind, name, fact; namespace, service, place, field, value, expected, since, query,
        link."""
        return self._read("states").rows

    @cached_property
    def alert_query(self) -> pl.DataFrame:
        """time, series, is_true; value, comparison, threshold, unit."""
        return self._read("alert_query").rows

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What one analyzer made of the tables and another can use as well, by the maker's name."""
        return {}

    @cached_property
    def earlier(self) -> Earlier:
        """What memory gave; empty without earlier.json."""
        path = self.path / EARLIER_FILE
        return _parse(Earlier, path) if is_there(path) else Earlier()

    @cached_property
    def rounds(self) -> Rounds:
        """The rounds after the first; empty without rounds.json."""
        path = self.path / ROUNDS_FILE
        return _parse(Rounds, path) if is_there(path) else Rounds()

    @cached_property
    def runbooks(self) -> AppliedRunbooks:
        """The operator's guidance for whoever words the answer; no analyzer reads it. Empty without
        runbooks.json."""
        path = self.path / RUNBOOKS_FILE
        return _parse(AppliedRunbooks, path) if is_there(path) else AppliedRunbooks()

    @cached_property
    def observations(self) -> Observations:
        """What was looked at on request; empty without observations.json."""
        path = self.path / OBSERVATIONS_FILE
        return _parse(Observations, path) if is_there(path) else Observations()

    @property
    def trace_files(self) -> tuple[Path, ...]:
        """Regular files under traces/, sorted by name; links that lead out of it are left out."""
        folder = self.path / "traces"
        if not folder.is_dir():
            return ()
        rglobs = [path for path in folder.rglob("*") if path.is_file()]
        # A foreign case may hold links: follow none that leads out of its traces.
        return tuple(sorted(p for p in rglobs if not p.is_symlink() or leads_inside(p, folder)))

    @cached_property
    def _unreadable(self) -> tuple[Gap, ...]:
        # The collector may have recorded the same reason already: report it once.
        reasons = {gap.reason for gap in self.recorded_gaps}
        gaps: list[Gap] = []
        for name in SCHEMAS:
            path = table_file(self.path, name)
            # The rows of such a file were checked when it was written: do not read them again.
            if path is None or was_checked(path):
                continue
            reason = self._why_incomplete(name)
            if reason is not None and reason not in reasons:
                number = len(self.recorded_gaps) + len(gaps) + 1
                gap = {"id": f"G{number}", "kind": name, "source": FOLDER}
                gaps.append(Gap.model_validate({**gap, "query": path.name, "reason": reason}))
        return tuple(gaps)

    @cached_property
    def _not_followed(self) -> tuple[Gap, ...]:
        left, why = self.rounds.left, self.rounds.why_left
        if not left or why is None:
            return ()
        number = len(self.recorded_gaps) + len(self._unreadable) + 1
        names = ", ".join(pointer.subject for pointer in left)
        reason = f"nobody was asked about {names}: {why}"
        gap = Gap(id=f"G{number}", kind="changes", source="rounds", query=names, reason=reason)
        return (gap,)

    def _why_incomplete(self, name: str) -> str | None:
        try:
            return self._read(name).problem
        except EvidenceError as error:
            return str(error)

    def _read(self, name: str) -> TableReading:
        if name not in self._readings:
            self._readings[name] = _read_table(self.path, name)
        return self._readings[name]

    @cached_property
    def _readings(self) -> dict[str, TableReading]:
        return {}

    def evidence_ids(self, kind: str) -> tuple[str, ...]:
        """Ids of the evidence items of that kind."""
        return tuple(item.id for item in self.evidence if item.kind == kind)


def _read_table(folder: Path, name: str) -> TableReading:
    """A table, and why rows or all of it are missing. Raises EvidenceError where it cannot be read
    at all and nothing else is there."""
    try:
        reading = read_rows(folder, name)
    except EvidenceError as error:
        # Without this table the case is worth analyzing only if it holds other evidence.
        if (folder / "traces").is_dir():
            has_other_evidence = True
        else:
            table_files = [table_file(folder, other) for other in SCHEMAS if other != name]
            has_other_evidence = any(path is not None for path in table_files)
        if not has_other_evidence:
            raise
        return TableReading(empty(name), str(error))
    return TableReading(reading.rows, gap_of(reading, name))


def read_case(path: Path) -> Case:
    """Read a case folder. Raises EvidenceError naming the file (and row) that cannot be read."""
    if not path.is_dir():
        raise EvidenceError(str(path), "is not a case folder (no such directory)")
    if not is_there(path / "alert.json"):
        raise EvidenceError(str(path), "is not a case folder: alert.json is missing")
    alert = _parse(Alert, path / "alert.json")
    scope_file = path / "scope.json"
    scope = _parse(Scope, scope_file) if is_there(scope_file) else assumed_scope(alert)
    evidence, gaps = _read_evidence(path)
    return Case(path, alert, scope, evidence or _implied_evidence(path), gaps)


def assumed_scope(alert: Alert) -> Scope:
    """The scope of a case that does not give one: the half hour from the alert, against the two
    hours before."""
    start = alert.started_at
    try:
        incident = Window(start=start, end=start + DEFAULT_INCIDENT)
        before = Window(start=start - DEFAULT_BASELINE, end=start)
        return Scope(incident=incident, baseline=(before,))
    # Near the first and the last date that Python knows there is no room for a window.
    except OverflowError as error:
        raise EvidenceError(
            "alert.json", f"started_at: {start.isoformat()} leaves no room for the windows"
        ) from error


def json_bytes(value: BaseModel | Sequence[BaseModel] | Mapping[str, Any]) -> bytes:
    """One JSON file of a case: sorted keys and a fixed indent, so that equal content gives equal
    bytes."""
    if isinstance(value, BaseModel):
        data: Any = value.model_dump(mode="json", exclude_none=True)
    elif isinstance(value, Mapping):
        data = dict(value)
    else:
        data = [v.model_dump(mode="json", exclude_none=True) for v in value]
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def write_json(path: Path, value: BaseModel | Sequence[BaseModel] | Mapping[str, Any]) -> None:
    """Write one JSON file of a case."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json_bytes(value))


def write_evidence(folder: Path, evidence: Iterable[Evidence], gaps: Iterable[Gap]) -> None:
    """Write evidence.json: one entry per item or gap."""
    write_json(folder / "evidence.json", [*evidence, *gaps])


def read_diagnosis(folder: Path) -> Diagnosis:
    """The stored findings.json."""
    return _parse(Diagnosis, folder / "findings.json")


def read_report(folder: Path) -> Report:
    """The stored report.json."""
    return _parse(Report, folder / "report.json")


def read_calls(folder: Path) -> tuple[ServiceCall, ...]:
    """The stored calls.json; empty for a case of before there was one."""
    path = folder / CALLS_FILE
    return _parse(CallList, path).calls if is_there(path) else ()


def _read_evidence(path: Path) -> tuple[tuple[Evidence, ...], tuple[Gap, ...]]:
    file = path / "evidence.json"
    if not is_there(file):
        return (), ()
    entries = _load(file)
    if not isinstance(entries, list):
        raise EvidenceError(file.name, "must be a list of items and gaps")
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for number, entry in enumerate(entries, start=1):
        # Only gaps have a reason.
        if isinstance(entry, dict) and "reason" in entry:
            gaps.append(_validate(Gap, entry, file.name, f"entry {number}"))
        else:
            evidence.append(_validate(Evidence, entry, file.name, f"entry {number}"))
    return tuple(evidence), tuple(gaps)


def _implied_evidence(path: Path) -> tuple[Evidence, ...]:
    """One item per file that is there, for a case written by hand without evidence.json."""
    evidence: list[Evidence] = []

    def add(kind: str, file: str, size: int) -> None:
        query = f"{file} of the case folder"
        evidence.append(
            Evidence(
                id=f"E{len(evidence) + 1}",
                kind=kind,
                source="recorded",
                query=query,
                file=file,
                bytes=size,
            )
        )

    for name in SCHEMAS:
        file = table_file(path, name)
        if file is not None and file.is_file():
            add(name, file.name, file.stat().st_size)
    if (path / "traces").is_dir():
        add("traces", "traces", 0)
    return tuple(evidence)


def _parse(model: type[M], path: Path) -> M:
    return _validate(model, _load(path), path.name)


def _load(path: Path) -> Any:
    # Check before reading: a pipe would block, and a huge file would fill the memory.
    check_regular(path, MAX_JSON_BYTES)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError) as error:
        raise EvidenceError(path.name, f"is not readable JSON ({error})") from error


def _validate(model: type[M], data: Any, file: str, where: str | None = None) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "content"
        raise EvidenceError(file, f"{key}: {first['msg']}", where) from error
