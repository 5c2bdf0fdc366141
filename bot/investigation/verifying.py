"""Verify an answer: ask its sources again what they were asked, and compare.

Twice. Over the same windows, where the same queries should give the same numbers: a finding that
does not come back does not hold. And over the last minutes against the same baseline, where it
shows whether what was found goes on. Both are analysed by the code that gave the answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import polars as pl
from rapidfuzz import fuzz

from faultline.analysis.case.folder import Case, read_case, write_evidence, write_json
from faultline.analysis.case.tables import ORIGIN, SCHEMAS, read_table, write_table
from faultline.analysis.case.windows import log_windows, metric_windows, span_windows
from faultline.analysis.kinds.finding_details import LineDetails, SignatureDetails, change_named
from faultline.analysis.vocabulary import Diagnosis, Evidence, Finding, Gap, Scope, Window
from faultline.bot.investigation.analyzing import analyze_case
from faultline.bot.investigation.collecting import (
    CollectionPart,
    distinct_rows,
    part_of,
    with_item_ids,
)
from faultline.bot.investigation.current_levels import CurrentLevel, current_levels
from faultline.bot.investigation.model.model_session import (
    Run,
    in_a_thread,
    without_traces,
    working_copy,
)
from faultline.bot.investigation.model.tools.metric_rows import SLIGHT
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Connector, Request, collect_from

LATELY = timedelta(minutes=10)
"""The time that counts as now: long enough for logs and spans of a quiet service, and short enough
that an incident which goes on fills it."""
ALIKE = SLIGHT
"""Numbers that differ by a smaller share are the same: the last points of a window were still
coming in when they were asked for first, and long-term storage keeps means of several points."""

SAME_TEMPLATE = 95
"""Percent of two templates that is equal: of 61 pairs of other lines of one service in a fifth of
the recorded cases 1 is as alike, and 15 at 80 percent."""

Then = Literal["confirmed", "changed", "not_found", "not_asked"]
Now = Literal["still", "over", "event", "unknown"]


@dataclass(frozen=True)
class ComparedNumber:
    """A number of a finding as it was stated, and as it was computed again; None where the finding
    that came back has no such number."""

    name: str
    then: float
    again: float | None

    @property
    def same(self) -> bool:
        """Whether they differ by less than ALIKE."""
        if self.again is None:
            return False
        return abs(self.again - self.then) <= ALIKE * max(abs(self.then), abs(self.again))


@dataclass(frozen=True)
class VerifiedFinding:
    """A finding, what its sources say of the same time today, and whether it goes on."""

    finding: Finding
    then: Then
    why: str
    """In words, where it is not confirmed."""
    numbers: tuple[ComparedNumber, ...]
    now: Now
    now_says: str


@dataclass(frozen=True)
class Verification:
    """All findings that were asked about, by id. `same_time` and `lately` are what code decides for
    both times; None where no source could be asked."""

    at: datetime
    findings: Mapping[str, VerifiedFinding]
    queried_sources: tuple[str, ...]
    unqueried_sources: tuple[str, ...]
    same_time: Diagnosis | None
    lately: Diagnosis | None


@dataclass(frozen=True)
class _Reanalysis:
    """A case with what its sources gave now, analysed."""

    case: Case
    diagnosis: Diagnosis
    queries: frozenset[tuple[str, str]]
    """Source and text of each query that brought something."""
    gaps: tuple[Gap, ...]


async def verify(
    case: Case,
    findings: Sequence[Finding],
    connectors: Iterable[Connector],
    *,
    now: datetime,
    run: Run,
    scratch: Path,
) -> Verification:
    """Ask the sources of these findings again, where they are among `connectors`.

    `scratch` is an empty folder. Raises FaultlineError where the rows cannot be analysed; a source
    that fails makes its findings `not_asked`.
    """
    items = {item.id: item for item in case.evidence}
    sources = {items[e].source for f in findings for e in f.evidence if e in items}
    requested_connectors = [connector for connector in connectors if connector.name in sources]
    names = tuple(sorted(requested_connector.name for requested_connector in requested_connectors))
    missing = tuple(sorted(sources - set(names)))
    if not requested_connectors:
        why = _why_unasked(missing)
        verified_findings = {}
        for finding in findings:
            unqueried = VerifiedFinding(finding, "not_asked", why, (), "unknown", why)
            verified_findings[finding.id] = unqueried
        return Verification(now, verified_findings, (), missing, None, None)
    lately = Window(start=now - LATELY, end=now)
    # The baseline is stored already, so ask about the last minutes alone.
    recent = {"incident": lately, "baseline": (), "baseline_logs": None, "baseline_spans": None}
    again = await _ask(case, case.scope, requested_connectors, scratch / "again")
    fresh = await _ask(
        case, case.scope.model_copy(update=recent), requested_connectors, scratch / "now"
    )
    same_time = await _analysed(case, again, names, run, scratch / "same")
    just_now = await _analysed_now(case, fresh, lately, run, scratch / "lately")
    level_of = await in_thread(current_levels, case, just_now.case)
    verified = {}
    for finding in findings:
        evidence = [items[e] for e in finding.evidence if e in items]
        then, why, numbers = _then(finding, evidence, same_time, names)
        state, says = _now(finding, evidence, just_now, level_of, names)
        verified[finding.id] = VerifiedFinding(finding, then, why, numbers, state, says)
    return Verification(now, verified, names, missing, same_time.diagnosis, just_now.diagnosis)


def verify_now(folder: Path, *, settings: Settings, findings: Sequence[Finding]) -> Verification:
    """The same for a case folder, with the sources of these settings: for a separate process,
    because vendors' libraries stay in memory once they are loaded."""
    with tempfile.TemporaryDirectory(prefix="faultline-verify-") as scratch:
        verification = verify(
            read_case(folder),
            findings,
            build_connectors(settings),
            now=datetime.now(UTC),
            run=in_a_thread,
            scratch=Path(scratch),
        )
        return asyncio.run(verification)


def same_finding(finding: Finding, among: Iterable[Finding]) -> Finding | None:
    """The finding of the same kind about the same thing. Where there are several, the finding that
    began nearest to it."""
    alike = [
        candidate
        for candidate in among
        if _about(candidate) == _about(finding) and _same_line(candidate, finding)
    ]

    def away(candidate: Finding) -> tuple[bool, float]:
        apart = 0.0
        if candidate.onset is not None and finding.onset is not None:
            apart = abs((candidate.onset - finding.onset).total_seconds())
        # The same sentence counts more than a near onset.
        return candidate.sentence != finding.sentence, apart

    return min(alike, key=away, default=None)


def compared(finding: Finding, again: Finding) -> tuple[ComparedNumber, ...]:
    """Each number of the finding beside the same number of the finding that came back."""
    return tuple(
        ComparedNumber(name, value, again.numbers.get(name))
        for name, value in finding.numbers.items()
    )


def _same_line(finding: Finding, other: Finding) -> bool:
    """Whether two findings about log lines mean the same kind of line; others are about no line.
    Other rows may give a template another gap, so that alike is enough."""
    ours, theirs = LineDetails.of(finding), LineDetails.of(other)
    signatures = SignatureDetails.of(finding), SignatureDetails.of(other)
    if signatures[0] is not None and signatures[1] is not None:
        return signatures[0].signature == signatures[1].signature
    if ours is None or theirs is None:
        # Equal only where neither of them is about a line.
        return ours is theirs
    return fuzz.ratio(ours.template, theirs.template) >= SAME_TEMPLATE


def _about(finding: Finding) -> tuple[object, ...]:
    where = {k: v for k, v in finding.series.items() if k != "table"}
    return (
        finding.kind,
        finding.subject,
        finding.signal,
        change_named(finding),
        finding.details.direction,
        tuple(sorted(where.items())),
    )


async def _ask(
    case: Case, scope: Scope, connectors: Sequence[Connector], folder: Path
) -> list[tuple[CollectionPart, Path]]:
    """What each connector gives for this scope, stored below the folder."""

    async def ask_connector(connector: Connector) -> tuple[CollectionPart, Path]:
        place = folder / connector.name
        (place / "files").mkdir(parents=True)
        request = Request(case.alert, scope, place / "files")
        collected = without_traces(await collect_from(connector, request))
        return await in_thread(part_of, connector.name, collected, place / "files", place), place

    return list(await asyncio.gather(*(ask_connector(connector) for connector in connectors)))


async def _analysed(
    case: Case,
    parts: Sequence[tuple[CollectionPart, Path]],
    queried_sources: Collection[str],
    run: Run,
    work: Path,
) -> _Reanalysis:
    """The case with the rows of these sources replaced by what they gave now."""

    def unqueried_rows(name: str) -> pl.DataFrame:
        return _unqueried_rows(case, name, queried_sources)

    evidence = [item for item in case.evidence if item.source not in queried_sources]
    await in_thread(_write, case, work, case.scope, parts, unqueried_rows, evidence)
    return await _result(parts, run, work)


async def _analysed_now(
    case: Case,
    parts: Sequence[tuple[CollectionPart, Path]],
    lately: Window,
    run: Run,
    work: Path,
) -> _Reanalysis:
    """The last minutes in the place of the incident, beside the baseline as it was stored."""

    windows = {
        "metrics": (metric_windows(case), "time"),
        "logs": (log_windows(case), "time"),
        "spans": (span_windows(case), "start"),
    }

    def before(name: str) -> pl.DataFrame:
        rows: pl.DataFrame = getattr(case, name)
        if name not in windows:
            return rows
        # What was during the incident is neither baseline nor now.
        table_windows, time = windows[name]
        return rows.filter(table_windows.in_baseline(time) & ~table_windows.in_search(time))

    baselines = {
        "baseline": windows["metrics"][0].baseline,
        "baseline_logs": windows["logs"][0].baseline,
        "baseline_spans": windows["spans"][0].baseline,
    }
    scope = case.scope.model_copy(update={"incident": lately, **baselines})
    await in_thread(_write, case, work, scope, parts, before, list(case.evidence))
    # For the analysis, the alert begins with the last minutes.
    write_json(work / "alert.json", case.alert.model_copy(update={"started_at": lately.start}))
    return await _result(parts, run, work)


async def _result(
    parts: Sequence[tuple[CollectionPart, Path]], run: Run, work: Path
) -> _Reanalysis:
    diagnosis = await run(analyze_case, work)
    queries = {(item.source, item.query) for part, _ in parts for item in part.items}
    gaps = tuple(gap for part, _ in parts for gap in part.gaps)
    return _Reanalysis(await in_thread(read_case, work), diagnosis, frozenset(queries), gaps)


def _write(
    case: Case,
    work: Path,
    scope: Scope,
    parts: Sequence[tuple[CollectionPart, Path]],
    stored: Callable[[str], pl.DataFrame],
    unqueried_evidence: Sequence[Evidence],
) -> None:
    """A case folder in `work` with stored rows, and those of the parts."""
    working_copy(case.path, work)
    write_json(work / "scope.json", scope)
    evidence: list[Evidence] = list(unqueried_evidence)
    # Number after the stored items, whose ids stored rows still name.
    first = max((int(e.id[1:]) for e in case.evidence if e.id[1:].isdecimal()), default=0) + 1
    rows = {name: [stored(name)] for name in SCHEMAS}
    gaps: list[Gap] = []
    for part, place in parts:
        ids = [f"E{first + n}" for n in range(len(part.items))]
        first += len(ids)
        named = zip(part.items, ids, strict=True)
        evidence += [item.model_copy(update={"id": new_id}) for item, new_id in named]
        gaps += part.gaps
        for name in part.tables:
            rows[name].append(with_item_ids(read_table(place, name), ids))
    for name, frames in rows.items():
        # The case may hold the table in another format, which must not stay beside the new one.
        for old in work.glob(f"{name}.*"):
            old.unlink()
        write_table(work, name, distinct_rows(pl.concat(frames, how="diagonal_relaxed")))
    numbered = [gap.model_copy(update={"id": f"G{n}"}) for n, gap in enumerate(gaps, start=1)]
    write_evidence(work, tuple(evidence), tuple(numbered))


def _unqueried_rows(case: Case, name: str, queried_sources: Collection[str]) -> pl.DataFrame:
    """The stored rows that came from sources that were not asked again."""
    rows: pl.DataFrame = getattr(case, name)
    items = [item for item in case.evidence if item.kind == name]
    queried_evidence = [item for item in items if item.source in queried_sources]
    if len(queried_evidence) == len(items):
        return rows.clear()
    if not queried_evidence or not rows.height:
        return rows
    if ORIGIN in rows.columns:
        ids = [item.id for item in queried_evidence]
        # A row without an origin may come from another source, so keep it.
        return rows.filter(~pl.col(ORIGIN).is_in(ids).fill_null(value=False))
    return _rows_not_shown(rows, queried_evidence, changes=name == "changes")


def _rows_not_shown(
    rows: pl.DataFrame, queried_evidence: Sequence[Evidence], *, changes: bool
) -> pl.DataFrame:
    """The rows that none of the queries may have brought, in cases that do not store which did."""
    keys = [column for column in ("service", "signal", "id") if column in rows.columns]
    distinct = rows.select(keys).unique()
    shown = []
    for row in distinct.iter_rows(named=True):
        change = row.get("id") if changes else None
        where = row.get("service"), row.get("signal"), change
        shown.append(any(item.may_show(*where) for item in queried_evidence))
    not_shown = distinct.filter(~pl.Series(shown, dtype=pl.Boolean))
    # Rows without a service are a group as well.
    return rows.join(not_shown, on=keys, how="semi", nulls_equal=True)


def _then(
    finding: Finding,
    evidence: Sequence[Evidence],
    again: _Reanalysis,
    queried_sources: Collection[str],
) -> tuple[Then, str, tuple[ComparedNumber, ...]]:
    fresh_finding = same_finding(finding, again.diagnosis.findings)
    if problem := _unasked(evidence, again, queried_sources):
        # What others brought is still there and says nothing about these sources.
        return "not_asked", problem, ()
    if fresh_finding is None:
        return "not_found", "the same queries over the same time do not show it any more", ()
    numbers = compared(finding, fresh_finding)
    moved = [number.name for number in numbers if not number.same]
    if moved:
        return "changed", f"other numbers now: {', '.join(moved)}", numbers
    return "confirmed", "", numbers


def _unasked(
    evidence: Sequence[Evidence], again: _Reanalysis, queried_sources: Collection[str]
) -> str:
    """Why none of a finding's own queries was asked again; empty where one was."""
    if not evidence:
        return "it rests on no query"
    if any((item.source, item.query) in again.queries for item in evidence):
        return ""
    absent = _absent_sources(evidence, queried_sources)
    if absent:
        return _why_unasked(absent)
    queries = {(item.source, item.query) for item in evidence}
    for gap in again.gaps:
        # A gap that is named after its source covers all queries of the source.
        if (gap.source, gap.query) in queries or gap.query == gap.source:
            return f"{gap.source} gave nothing: {gap.reason}"
    sources = ", ".join(sorted({item.source for item in evidence}))
    if any(item.rows for item in evidence):
        return f"{sources} brought nothing for its queries"
    return f"{sources} was not asked its queries again"


def _absent_sources(evidence: Sequence[Evidence], queried_sources: Collection[str]) -> list[str]:
    return sorted({item.source for item in evidence if item.source not in queried_sources})


def _why_unasked(missing: Sequence[str]) -> str:
    if not missing:
        return "it rests on no query"
    return f"no connection to {', '.join(missing)} here"


def _now(
    finding: Finding,
    evidence: Sequence[Evidence],
    lately: _Reanalysis,
    level_of: Callable[[Finding], CurrentLevel | None],
    queried_sources: Collection[str],
) -> tuple[Now, str]:
    table = finding.series.get("table", "")
    if change_named(finding) is not None or table == "changes":
        return "event", "it happened; there is nothing to measure now"
    if not any(item.source in queried_sources for item in evidence):
        return "unknown", _why_unasked(_absent_sources(evidence, queried_sources))
    if table == "metrics":
        level = level_of(finding)
        if level is None:
            return "unknown", "no points in the last minutes"
        return ("still" if level.goes_on else "over"), level.text
    goes_on = same_finding(finding, lately.diagnosis.findings)
    if goes_on is not None:
        return "still", goes_on.sentence
    failed = [gap.reason for gap in lately.gaps if gap.kind == table]
    if table in ("logs", "spans") and not failed:
        minutes = f"{LATELY.total_seconds() / 60:g}"
        return "over", f"the {table} of the last {minutes} minutes do not show it"
    return "unknown", failed[0] if failed else "nothing in the last minutes tells"
