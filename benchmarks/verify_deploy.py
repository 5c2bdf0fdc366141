"""How often `faultline verify-deploy` tells a healthy deploy to roll back, and how often it notices
a bad one, beside simple rules on the same signals.

    python benchmarks/verify_deploy.py [--worlds 0:200] [--stream test] [--cases FOLDER]

Worlds are those of the proving ground (10 units or so). A healthy deploy is one at a random time
and service, at which nothing was done to the world: no fault, and no other trouble begins or ends
within 15 minutes. It is watched for 15 minutes with all looks. A bad deploy is a minute before the
fault of a world whose kind of fault changes bring about, on the service at fault. A healthy canary
is a healthy deploy to one pod, which is new. Of `--cases` (recordings) only the quiet time before
the incident is used.

Two rules are run on the same signals and windows: three sigmas (the mean after the deploy is more
than three standard deviations of the points before from their mean) and Mann-Whitney with the
defaults of Kayenta's judge (confidence .98, tolerance .25) against as long a time just before.
Either says no when one signal of errors or latency fails. Intervals are 95 %, over worlds drawn
again (2,000 times), because deploys of one world are alike.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.deploys.judged_signals import JudgedSeries, judged_series
from faultline.analysis.deploys.question import DeployQuestion, looks_of
from faultline.analysis.deploys.signal_checks import DECIDES
from faultline.analysis.deploys.verdict import Decision, Group
from faultline.analysis.deploys.verifying import judge_deploy
from faultline.analysis.vocabulary import Scope, Window
from proving_ground.worlds.faults import PlaceKind
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World
from proving_ground.worlds.writing import write_world

SIZE = 10
WAIT, WARM_UP = timedelta(minutes=15), timedelta(minutes=2)
BASELINE = timedelta(hours=6)
LEAST_BASELINE = timedelta(hours=2)
LEAST_WAIT = timedelta(minutes=8)
HEALTHY_DEPLOYS = 4
RULES = ("three sigmas", "Mann-Whitney")


@dataclass(frozen=True)
class Outcome:
    """What was said of one deploy."""

    world: str
    bad: str
    """The fault; empty for a healthy deploy."""
    decision: Decision
    minutes: float
    """When it was decided, after the deploy."""
    missing: bool
    rules: tuple[bool, ...]
    """Whether each of `RULES` says no."""
    canary: bool = False
    """Whether only one pod got it."""


def outcome_of(
    case: Case, service: str, at: datetime, wait: timedelta, world: str, bad: str
) -> Outcome:
    """All looks at one deploy, until it is decided."""
    verdict = None
    for look in looks_of(at, wait, WARM_UP):
        observed_case = _cut(case, at - BASELINE, look.end)
        verdict = judge_deploy(observed_case, DeployQuestion(service, at, look))
        if verdict.final:
            break
    assert verdict is not None
    observed_case = _cut(case, at - BASELINE, at + wait)
    series = [
        candidate
        for candidate in judged_series(observed_case.metrics, service)
        if candidate.parts is None
    ]
    start, end = (at + WARM_UP).timestamp(), (at + wait).timestamp()
    rules = (
        any(_three_sigmas(series, at.timestamp(), start, end) for series in series),
        any(_mann_whitney(series, at.timestamp(), start, end) for series in series),
    )
    minutes = (verdict.judged_until - at).total_seconds() / 60
    return Outcome(world, bad, verdict.decision, minutes, bool(verdict.missing), rules)


def _cut(case: Case, start: datetime, end: datetime) -> Case:
    """The case as it would have been collected then."""
    scope = Scope(incident=Window(start=end - WAIT, end=end))
    observed_case = replace(case, scope=scope)
    for table in ("metrics", "logs"):
        rows = getattr(case, table).filter(pl.col("time").is_between(start, end))
        # A cached property is what lies under its name.
        observed_case.__dict__[table] = rows
    return observed_case


def _both(
    series: JudgedSeries, at: float, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    values = -series.values if series.falls else series.values
    before = values[(series.times < at) & np.isfinite(values)]
    after = values[(series.times >= start) & (series.times <= end) & np.isfinite(values)]
    return before, after


def _three_sigmas(series: JudgedSeries, at: float, start: float, end: float) -> bool:
    before, after = _both(series, at, start, end)
    if series.group not in DECIDES or len(before) < 10 or len(after) < 3:
        return False
    return bool(after.mean() > before.mean() + 3 * max(before.std(ddof=1), 1e-12))


def _mann_whitney(series: JudgedSeries, at: float, start: float, end: float) -> bool:
    if series.group not in (Group.ERRORS, Group.LATENCY):
        return False
    lately = series.times >= at - (end - start)
    near = replace(series, times=series.times[lately], values=series.values[lately])
    before, after = _both(near, at, start, end)
    if len(before) < 3 or len(after) < 3:
        return False
    moved = after - 0.25 * abs(before.mean())
    both = np.concatenate([before, moved])
    order = both.argsort(kind="stable")
    ranks = np.empty(len(both))
    ranks[order] = np.arange(1, len(both) + 1)
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = np.bincount(inverse, ranks)[inverse] / counts[inverse]
    n, m = len(before), len(moved)
    u = ranks[n:].sum() - m * (m + 1) / 2
    ties = float(((counts**3) - counts).sum()) / ((n + m) * (n + m - 1))
    sigma = math.sqrt(n * m / 12 * ((n + m + 1) - ties))
    return sigma > 0 and (u - n * m / 2 - 0.5) / sigma > 2.326


def of_world(number: int, *, test: bool) -> list[Outcome]:
    """Healthy deploys of one world, whole and as canaries, and the bad one where its fault is of
    the kind."""
    world = World.of(WorldSeed(number, test), size=SIZE)
    with tempfile.TemporaryDirectory() as scratch:
        case = read_case(write_world(world, Path(scratch)))
        case = replace(case, evidence=())
        assert case.metrics.height >= 0
        assert case.logs.height >= 0
        outcomes = list(_healthy_of(world, case))
        outcomes += _bad_of(world, case)
        outcomes += _canaries_of(world, case)
    return outcomes


def _healthy_of(world: World, case: Case) -> Iterator[Outcome]:
    rng = np.random.default_rng([world.seed.number, 11])
    span, changed = _quiet_span(world)
    yield from _healthy(case, rng, span, world.seed.text, changed)


def _quiet_span(world: World) -> tuple[tuple[float, float], list[float]]:
    """The time before the fault, and when other troubles began or ended in it."""
    last = world.fault.begins if world.fault is not None else world.window[1]
    begin, end = world.clock.at(0), world.clock.at(last) - WAIT.total_seconds()
    moved = [
        step
        for bystander in world.bystanders
        for step in (bystander.begins, bystander.ends)
        if step
    ]
    return (begin, end), [world.clock.at(step) for step in moved]


def _healthy(
    case: Case,
    rng: np.random.Generator,
    span: tuple[float, float],
    world: str,
    changed: Sequence[float] = (),
) -> Iterator[Outcome]:
    """Deploys in that span; none whose time holds one of the moments in `changed`."""
    begin, end = span
    services = sorted(case.metrics["service"].drop_nulls().unique())
    earliest = begin + LEAST_BASELINE.total_seconds()
    if earliest >= end or not services:
        return
    for _ in range(HEALTHY_DEPLOYS):
        service = str(rng.choice(services))
        drawn = float(rng.uniform(earliest, end))
        if any(abs(moment - drawn) <= WAIT.total_seconds() for moment in changed):
            continue
        at = datetime.fromtimestamp(drawn, UTC)
        yield outcome_of(case, service, at, WAIT, world, "")


def _bad_of(world: World, case: Case) -> Iterator[Outcome]:
    fault = world.fault
    if fault is None or fault.kind.place is not PlaceKind.UNIT or not fault.kind.changed:
        return
    service = fault.subject(world.graph)
    if service not in set(case.metrics["service"].drop_nulls()):
        return
    at = datetime.fromtimestamp(world.clock.at(fault.begins) - 60, UTC)
    last_time = case.metrics.filter(pl.col("service") == service)["time"].max()
    assert isinstance(last_time, datetime)
    wait = min(WAIT, last_time - at)
    if wait >= LEAST_WAIT:
        yield outcome_of(case, service, at, wait, world.seed.text, fault.kind.name)


def _canaries_of(world: World, case: Case) -> Iterator[Outcome]:
    """Healthy deploys to one pod, whose rows before the deploy are taken away: it is new."""
    named = pl.col("labels").str.json_path_match("$.pod")
    if "labels" not in case.metrics.columns:
        return
    pods = case.metrics.with_columns(named.alias("pod")).drop_nulls("pod")
    counts = pods.group_by("service").agg(pl.col("pod").n_unique().alias("n"), pl.col("pod").min())
    services = counts.filter(pl.col("n") > 1).sort("service")
    if not services.height:
        return
    rng = np.random.default_rng([world.seed.number, 12])
    service, _, pod = services.row(int(rng.integers(services.height)))
    span, changed = _quiet_span(world)
    earliest = span[0] + LEAST_BASELINE.total_seconds()
    if earliest >= span[1]:
        return
    drawn = float(rng.uniform(earliest, span[1]))
    if any(abs(moment - drawn) <= WAIT.total_seconds() for moment in changed):
        return
    at = datetime.fromtimestamp(drawn, UTC)
    old = (pl.col("service") == service) & (named == pod) & (pl.col("time") < at)
    observed_case = replace(case)
    observed_case.__dict__["metrics"] = case.metrics.filter(~old.fill_null(value=False))
    observed_case.__dict__["logs"] = case.logs
    yield replace(outcome_of(observed_case, service, at, WAIT, world.seed.text, ""), canary=True)


def of_recording(path: Path) -> list[Outcome]:
    """Healthy deploys in the quiet time of a recording."""
    case = read_case(path)
    if not case.metrics.height or not case.scope.baseline:
        return []
    window = max(case.scope.baseline, key=lambda baseline: baseline.seconds)
    rng = np.random.default_rng(len(path.name))
    begin, end = window.start.timestamp(), window.end.timestamp() - WAIT.total_seconds()
    return list(_healthy(replace(case, evidence=()), rng, (begin, end), path.name))


def interval(outcomes: Sequence[Outcome], says_no: Callable[[Outcome], bool]) -> str:
    """The share and its interval, with worlds drawn again."""
    worlds = sorted({outcome.world for outcome in outcomes})
    place = {world: n for n, world in enumerate(worlds)}
    totals, hits = np.zeros(len(worlds)), np.zeros(len(worlds))
    for outcome in outcomes:
        totals[place[outcome.world]] += 1
        hits[place[outcome.world]] += says_no(outcome)
    rng = np.random.default_rng(1)
    drawn = rng.integers(len(worlds), size=(2000, len(worlds)))
    shares = hits[drawn].sum(axis=1) / totals[drawn].sum(axis=1)
    low, high = np.percentile(shares, (2.5, 97.5))
    count = int(hits.sum())
    if count == 0:
        high = 3 / len(worlds)
    return f"{count / len(outcomes):6.3f}  ({low:.3f} to {high:.3f})  {count} of {len(outcomes)}"


def _decided(outcome: Outcome, *, decision: Decision) -> bool:
    return outcome.decision is decision


def _refused(outcome: Outcome, *, rule: int) -> bool:
    return outcome.rules[rule]


def report(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print one table."""
    if not outcomes:
        return
    print(
        f"{title}: {len(outcomes)} deploys, {len({outcome.world for outcome in outcomes})} systems"
    )
    judged = [outcome for outcome in outcomes if not outcome.missing]
    for name, remaining_outcomes in (("all", outcomes), ("with enough data", judged)):
        if not remaining_outcomes:
            continue
        print(f"  {name}")
        rolls = interval(remaining_outcomes, partial(_decided, decision=Decision.ROLL_BACK))
        print(f"    {'faultline: roll back':28}{rolls}")
        for decision in (Decision.HOLD, Decision.GO):
            share = interval(remaining_outcomes, partial(_decided, decision=decision))
            print(f"    {'faultline: ' + decision.value:28}{share}")
        for place, rule in enumerate(RULES):
            print(
                "    "
                f"{rule + ': no':28}{interval(remaining_outcomes, partial(_refused, rule=place))}"
            )


def by_fault(outcomes: Sequence[Outcome]) -> None:
    """Print detection by kind of fault."""
    every = Counter(outcome.bad for outcome in outcomes)
    rollbacks = Counter(
        outcome.bad for outcome in outcomes if outcome.decision is Decision.ROLL_BACK
    )
    holds = Counter(outcome.bad for outcome in outcomes if outcome.decision is Decision.HOLD)
    for kind, count in every.most_common():
        print(f"    {kind:28}{rollbacks[kind]} rolled back, {holds[kind]} held, of {count}")
    minutes = [outcome.minutes for outcome in outcomes if outcome.decision is Decision.ROLL_BACK]
    if minutes:
        print(f"    decided after {np.median(minutes):.1f} min (median)")


def report_worlds(worlds: str, outcomes: Sequence[Outcome]) -> None:
    """Print the tables of simulated deploys."""
    canaries = [outcome for outcome in outcomes if outcome.canary]
    report(f"healthy canaries, {worlds}", canaries)
    healthy = [outcome for outcome in outcomes if not outcome.bad and not outcome.canary]
    report(f"healthy deploys, {worlds}", healthy)
    bad = [outcome for outcome in outcomes if outcome.bad]
    report(f"bad deploys, {worlds}", bad)
    by_fault(bad)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--worlds", default="0:200", help="first:last, without the last")
    parser.add_argument("--stream", choices=("train", "test"), default="test")
    parser.add_argument("--cases", type=Path, help="recordings, for their quiet time")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    first, last = (int(part) for part in args.worlds.split(":"))
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(args.workers) as pool:
        work = partial(of_world, test=args.stream == "test")
        for batch in pool.map(work, range(first, last)):
            outcomes += batch
        report_worlds(f"{args.stream} worlds {args.worlds}", outcomes)
        if args.cases is not None:
            folders = sorted(path for path in args.cases.iterdir() if path.is_dir())
            quiet = [outcome for batch in pool.map(of_recording, folders) for outcome in batch]
            report("healthy deploys, quiet time of recordings", quiet)


if __name__ == "__main__":
    main()
