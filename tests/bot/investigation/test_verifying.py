"""An answer is verified against sources that say the same, something else, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, write_json
from faultline.analysis.case.tables import LOGS, METRICS, ORIGIN
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import EvidenceKind, Finding, Scope, Window
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.investigation.model.model_session import in_a_thread
from faultline.bot.investigation.verifying import VerifiedFinding, verify
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.shared.contract.base import Check, Collected, Connector, Item, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.scenarios.small_case import ALERT, STARTED

ONSET = STARTED - timedelta(minutes=4)
NOW = STARTED + timedelta(hours=1)
QUERY = "p99_latency_ms by (service)"
SCOPE = Scope(
    incident=Window(start=STARTED - timedelta(minutes=30), end=STARTED + timedelta(minutes=6)),
    baseline=(Window(start=STARTED - timedelta(minutes=150), end=STARTED - timedelta(minutes=30)),),
)
Level = Callable[[datetime], float]
"""What checkout's latency is at a time, in ms."""


def slow_since_onset(at: datetime) -> float:
    return 730.0 if at >= ONSET else 210.0


def slow_for_a_while(at: datetime) -> float:
    return 730.0 if ONSET <= at < STARTED + timedelta(minutes=20) else 210.0


@dataclass
class World:
    """A source of metrics in which checkout's latency is what `level` says."""

    level: Level
    name: str = "prometheus"
    kinds: tuple[EvidenceKind, ...] = ("metrics",)
    limits: Limits = field(default_factory=Limits)
    fails: bool = False

    async def collect(self, request: Request) -> Collected:
        if self.fails:
            raise ConnectorError(self.name, "query", "is away")
        rows = []
        for window in (*request.scope.baseline, request.scope.incident):
            at = window.start
            while at < window.end:
                wave = 7 * (at.minute % 5)
                rows.append((at, "checkout", "p99_latency_ms", self.level(at) + wave, "ms", None))
                rows.append((at, "cart", "p99_latency_ms", 45.0 + wave, "ms", None))
                at += timedelta(seconds=30)
        table = pl.DataFrame(rows, schema=METRICS.columns, orient="row")
        item = Item("metrics", QUERY, request.scope.incident, rows=len(rows)).holding(table)
        return Collected({"metrics": table}, (item,))

    async def check(self) -> Check:
        return Check(self.name, True, self.name)


@dataclass
class Errors:
    """A source of logs, in which checkout's errors begin with its latency and end by themselves."""

    name: str = "loki"
    kinds: tuple[EvidenceKind, ...] = ("logs",)
    limits: Limits = field(default_factory=Limits)
    until: datetime = NOW

    async def collect(self, request: Request) -> Collected:
        rows = []
        for window in (*request.scope.baseline, request.scope.incident):
            at = window.start
            while at < window.end:
                rows.append((at, "checkout", f"order {at.minute + 100} paid", "INFO", None, None))
                if ONSET <= at < self.until:
                    said = "payment failed: connection refused"
                    rows.append((at, "checkout", said, "ERROR", None, None))
                at += timedelta(seconds=10)
        columns = {name: kind for name, kind in LOGS.columns.items() if name != ORIGIN}
        table = pl.DataFrame(rows, schema=columns, orient="row")
        item = Item("logs", "{service=checkout}", request.scope.incident, rows=len(rows))
        return Collected({"logs": table}, (item.holding(table),))

    async def check(self) -> Check:
        return Check(self.name, True, self.name)


def answered(
    folder: Path, *sources: Connector, scope: Scope = SCOPE
) -> tuple[Case, Sequence[Finding]]:
    """A case as production makes it, and its findings about checkout."""
    cases = CaseStore(folder)

    async def made() -> None:
        for source in sources:
            await collect_part(source, ALERT, scope, cases, "one")

    asyncio.run(made())
    assemble(ALERT, scope, [source.name for source in sources], cases, "one")
    case = read_case(folder / "one")
    write_json(case.path / "findings.json", diagnose(case))
    found = read_diagnosis(case.path).findings
    return case, [one for one in found if one.subject == "checkout"]


def told(
    folder: Path,
    case: Case,
    findings: Sequence[Finding],
    today: Sequence[Connector],
    now: datetime = NOW,
) -> list[VerifiedFinding]:
    asked = verify(case, findings, today, now=now, run=in_a_thread, scratch=folder / "scratch")
    return list(asyncio.run(asked).findings.values())


def verified(folder: Path, then: World, today: Sequence[Connector]) -> VerifiedFinding:
    case, findings = answered(folder / "cases", then)
    return told(folder, case, findings[:1], today)[0]


def test_what_the_source_still_shows_is_confirmed_and_goes_on(tmp_path: Path) -> None:
    world = World(slow_since_onset)
    one = verified(tmp_path, world, [world])
    assert (one.then, one.why) == ("confirmed", "")
    assert all(number.again == number.then for number in one.numbers)
    assert one.numbers
    assert one.now == "still"
    assert one.now_says == "744 ms in the last 5 minutes; 224 ms before, 744 ms in the incident"


def test_what_is_over_held_then_and_does_not_go_on(tmp_path: Path) -> None:
    one = verified(tmp_path, World(slow_since_onset), [World(slow_for_a_while)])
    assert (one.then, one.now) == ("confirmed", "over")
    assert "224 ms in the last 5 minutes" in one.now_says


def test_other_numbers_for_the_same_time_are_told_side_by_side(tmp_path: Path) -> None:
    worse = World(lambda at: 1_460.0 if at >= ONSET else 210.0)
    one = verified(tmp_path, World(slow_since_onset), [worse])
    assert one.then == "changed"
    moved = {number.name: number for number in one.numbers if not number.same}
    incident = moved["incident"]
    assert incident.again is not None
    assert incident.again > 1.8 * incident.then


def test_a_finding_that_the_source_does_not_show_does_not_hold(tmp_path: Path) -> None:
    one = verified(tmp_path, World(slow_since_onset), [World(lambda _: 210.0)])
    assert (one.then, one.numbers) == ("not_found", ())


def test_a_source_that_cannot_be_asked_confirms_nothing(tmp_path: Path) -> None:
    then = World(slow_since_onset)
    away = verified(tmp_path / "away", then, [World(slow_since_onset, fails=True)])
    assert (away.then, away.now) == ("not_asked", "unknown")
    assert "is away" in away.why
    other = World(slow_since_onset, name="datadog")
    absent = verified(tmp_path / "absent", then, [other])
    assert (absent.then, absent.why) == ("not_asked", "no connection to prometheus here")


def test_each_source_is_verified_by_itself(tmp_path: Path) -> None:
    metrics, logs = World(slow_since_onset), Errors()
    case, findings = answered(tmp_path / "cases", metrics, logs)
    assert {"p99_latency_ms", "logs"} <= {one.signal for one in findings}
    only_metrics = told(tmp_path / "metrics", case, findings, [metrics])
    states = {one.finding.signal: one.then for one in only_metrics}
    assert (states["p99_latency_ms"], states["logs"]) == ("confirmed", "not_asked")
    both = told(tmp_path / "both", case, findings, [metrics, logs])
    assert {one.then for one in both} == {"confirmed"}


def test_log_lines_that_ended_are_over(tmp_path: Path) -> None:
    case, findings = answered(tmp_path / "cases", World(slow_since_onset), Errors())
    lines = [one for one in findings if one.signal == "logs"]
    [goes_on] = told(tmp_path / "on", case, lines[:1], [Errors()])
    assert goes_on.now == "still"
    ended = Errors(until=STARTED + timedelta(minutes=20))
    [over] = told(tmp_path / "over", case, lines[:1], [ended])
    assert (over.then, over.now) == ("confirmed", "over")


def test_a_baseline_after_the_incident_is_a_baseline_too(tmp_path: Path) -> None:
    calm = Window(start=STARTED + timedelta(hours=3), end=STARTED + timedelta(hours=5))
    scope = SCOPE.model_copy(update={"baseline": (calm,)})
    world = World(lambda at: 730.0 if ONSET <= at < STARTED + timedelta(hours=2) else 210.0)
    sources = (world, Errors())
    case, findings = answered(tmp_path / "cases", *sources, scope=scope)
    assert len(findings) >= 2
    for one in told(tmp_path, case, findings, sources):
        assert (one.then, one.now) == ("confirmed", "still"), one
