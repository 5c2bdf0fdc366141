"""One world: a system, its day, perhaps a fault, an alert, and the truth about it.

The truth comes from a replay: the same seed is computed with and without the fault, and the fault
is the cause only if the alert does not fire without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proving_ground.worlds.alerts import (
    CPU,
    ERRORS,
    LATENCY,
    RATE,
    WATCHED,
    Rule,
    Signals,
    draw_rules,
    tight_rule,
)
from proving_ground.worlds.changes import RecordedChange, draw_change, guilty_delay, usual_changes
from proving_ground.worlds.clock import STEP_S, WorldClock
from proving_ground.worlds.cluster_faults import ALL_FAULTS
from proving_ground.worlds.counts import Counts, count_requests
from proving_ground.worlds.fault_actions import Injection
from proving_ground.worlds.faults import (
    FAULTS,
    Course,
    PlaceKind,
    SimulatedFault,
    course_of,
    targets_of,
)
from proving_ground.worlds.graph import Floats, Graph, UnitKind
from proving_ground.worlds.levers import Levers
from proving_ground.worlds.load import entering, slow_noise
from proving_ground.worlds.physics import SCALE_DELAY, SCALE_WINDOW, History, Physics
from proving_ground.worlds.random_graph import random_graph
from proving_ground.worlds.seeds import WorldSeed

HORIZON = 560
"""Steps computed after the fault begins (140 min): slow causes need most of them."""
AFTER_ALERT = 125
"""Steps kept free after the alert, for an incident window of up to 30 min."""
STORIES = ("incident", "calm", "recovered", "surge")
STORY_SHARES = (0.6, 0.25, 0.08, 0.07)
STRENGTHS = (1.0, 2.0, 4.0)
TRIES = 8
FELT_OUTSIDE = 0.05
"""Share of failing requests at a front door from which a background trouble is dropped: beyond it
somebody would have been paged."""
NEARLY = 0.85
"""Share of its threshold that a signal may reach without the fault."""
"""Faults tried before a world counts as calm."""
EPOCH = 1_767_225_600
"""2026-01-01 00:00 UTC; worlds are in the year after."""


@dataclass(frozen=True)
class AppliedFault:
    """What was done to a world."""

    kind: SimulatedFault
    target: int
    edge: int | None
    course: Floats
    strength: float
    levers: Levers

    @property
    def begins(self) -> int:
        """The first step at which it acts."""
        return int(np.argmax(self.course > 0))

    def units_hit(self, graph: Graph) -> frozenset[int]:
        """The units that are at fault themselves."""
        if self.kind.place is PlaceKind.UNIT:
            return frozenset({self.target})
        return frozenset(n for n, parts in self.levers.parts.items() if parts)

    def subject(self, graph: Graph) -> str:
        """The name the label gives: a unit's, or a place's."""
        if self.kind.place is PlaceKind.UNIT:
            return graph.units[self.target].name
        machine = graph.machines[self.target]
        names = {
            PlaceKind.MACHINE: machine.name,
            PlaceKind.ZONE: machine.zone,
            PlaceKind.CLUSTER: machine.cluster,
        }
        return names[self.kind.place]


@dataclass(frozen=True)
class Bystander:
    """Something else that is broken and does not matter for the alert."""

    fault: str
    subject: str
    begins: int
    ends: int | None


@dataclass(frozen=True)
class World:
    """Everything that is true of one world. Steps count from `clock.start_s`."""

    seed: WorldSeed
    story: str
    """incident, surge, recovered, or why a calm world's alert fired."""
    graph: Graph
    clock: WorldClock
    entries: Floats
    history: History
    counts: Counts
    levers: Levers
    fault: AppliedFault | None
    rule: Rule
    alert_step: int
    window: tuple[int, int]
    """First and last step of the incident window."""
    changes: tuple[RecordedChange, ...]
    guilty: str | None
    bystanders: tuple[Bystander, ...]
    fires_without: bool
    """Whether the alert fires in the replay without the fault."""
    calm: History
    """The replay without the fault."""

    @classmethod
    def of(cls, seed: WorldSeed, *, size: int | None = None, fault: str | None = None) -> World:
        """The world of a seed; `size` and `fault` fix what else would be drawn."""
        return WorldBuilder(seed, size=size, fault=fault).build()


class WorldBuilder:
    """Draws a world and computes it with and without its fault."""

    def __init__(self, seed: WorldSeed, *, size: int | None, fault: str | None) -> None:
        self._seed = seed
        self._requested_fault = fault
        self.graph = random_graph(seed, size)
        rng = seed.generator("clock")
        self.baseline = int(_baseline_hours(rng, len(self.graph.units)) * 3600 / STEP_S)
        start = EPOCH + int(rng.integers(0, 330 * 86400 // STEP_S)) * STEP_S
        self.clock = WorldClock(start, self.baseline + HORIZON)
        self.entries = entering(self.graph, self.clock, seed)
        self._wander = self._slow_noise()
        self._quiet = self._hiccups()
        alone = self._quiet.copy()
        self.bystanders = self._background()
        self.calm = self._everything()
        if self._felt_outside():
            # Whoever breaks the front door for hours is no bystander.
            self._quiet, self.bystanders = alone, ()
            self.calm = self._everything()
        self.calm_counts = self._count(self.calm, self._quiet)
        self._calm_signals = Signals(self.graph, self.calm, self.calm_counts, seed)

    def build(self) -> World:
        """The world; a calm one where no fault of this seed makes an alert fire."""
        rng = self._seed.generator("story")
        story = str(rng.choice(STORIES, p=STORY_SHARES))
        if self._requested_fault is not None:
            story = "incident"
        if story != "calm":
            for attempt in range(TRIES):
                world = self._with_fault(story, attempt)
                if world is not None:
                    return world
        return self._without_fault(rng)

    def replay_without_fault(self) -> Signals:
        """The signals of the same world without its fault."""
        return self._calm_signals

    def _slow_noise(self) -> Floats:
        rows = np.empty((len(self.graph.units), self.clock.steps))
        for unit in range(len(rows)):
            rng = self._seed.generator("wander", unit)
            rows[unit] = slow_noise(rng, self.clock.steps, rng.uniform(0.01, 0.06), 30)
        return rows

    def _everything(self) -> History:
        return self._physics(self._quiet, slice(0, self.clock.steps)).run()

    def _felt_outside(self) -> bool:
        """Whether the troubles of the background fail requests at a front door."""
        fronts = self.graph.of_kind(UnitKind.FRONT)
        return bool(self.bystanders) and bool(self.calm.failing[fronts].max() > FELT_OUTSIDE)

    def _physics(self, levers: Levers, window: slice) -> Physics:
        return Physics(self.graph, self.entries, self._wander, levers, window)

    def _count(self, history: History, levers: Levers) -> Counts:
        entries = self.entries.copy()
        for number in range(len(entries)):
            moved = levers.get("load", number, slice(None))
            if moved is not None:
                entries[number] *= moved
        return count_requests(self.graph, entries, history, self._seed)

    def _background(self) -> tuple[Bystander, ...]:
        """Troubles that began half an hour to many hours before, at units of little traffic."""
        rng = self._seed.generator("background")
        bystanders = []
        for number in range(int(rng.choice((0, 1, 2, 3), p=(0.3, 0.35, 0.25, 0.1)))):
            name = str(rng.choice([k for k, v in FAULTS.items() if v.place is PlaceKind.UNIT]))
            kind = FAULTS[name]
            targets = []
            for target, edge in targets_of(kind, self.graph):
                # A stuck worker's backlog grows all day and would sooner or later raise alerts.
                worker = self.graph.units[target].kind is UnitKind.WORKER
                if self._traffic_share(target) < 0.15 and not worker:
                    targets.append((target, edge))
            if not targets or name == "traffic_surge":
                continue
            target, edge = targets[int(rng.integers(len(targets)))]
            begin = int(rng.uniform(0.02, 0.85) * self.baseline)
            end = begin + int(rng.uniform(20, 240)) if rng.random() < 0.4 else None
            course = course_of(Course.SUDDEN, rng, self.clock, begin, end)
            inner = self._seed.generator("bystander", number)
            kind.acts(
                Injection(self.graph, self.clock, inner, self._quiet, target, edge, course, 1.0)
            )
            bystanders.append(Bystander(name, self.graph.units[target].name, begin, end))
        return tuple(bystanders)

    def _hiccups(self) -> Levers:
        """A quarter of the units are slow for half a minute now and then, all day and harmlessly:
        compactions, collections, a cold start."""
        rng = self._seed.generator("hiccups")
        levers = Levers()
        for unit in range(len(self.graph.units)):
            if rng.random() > 0.25:
                continue
            factor = np.ones(self.clock.steps)
            per_step = rng.uniform(0.2, 1.5) * STEP_S / 3600
            for step in np.flatnonzero(rng.random(self.clock.steps) < per_step):
                factor[step : step + int(rng.integers(1, 3))] = rng.uniform(1.3, 2.5)
            levers.move("work", unit, factor)
        return levers

    def _traffic_share(self, unit: int) -> float:
        """Visits per entering request."""
        return float(sum(route.share * route.visits[unit] for route in self.graph.routes))

    def _with_fault(self, story: str, attempt: int) -> World | None:
        rng = self._seed.generator("fault", attempt)
        name = self._requested_fault or str(rng.choice(list(FAULTS)))
        if story == "surge":
            name = "traffic_surge"
        kind = ALL_FAULTS[name]
        targets = targets_of(kind, self.graph)
        if not targets:
            return None
        target, edge = targets[int(rng.integers(len(targets)))]
        if story == "recovered" and kind.courses == (Course.RAMP,):
            return None
        for strength in STRENGTHS:
            world = self._try(story, kind, target, edge, strength, attempt)
            if world is not None:
                return world
        return None

    def _try(
        self,
        story: str,
        kind: SimulatedFault,
        target: int,
        edge: int | None,
        strength: float,
        attempt: int,
    ) -> World | None:
        rng = self._seed.generator("course", attempt)
        shape = Course(str(rng.choice([str(c) for c in kind.courses])))
        if story == "recovered" and shape is Course.RAMP:
            shape = Course.SUDDEN
        begin = self.baseline + int(rng.integers(0, 20))
        end = begin + int(rng.integers(30, 80)) if story == "recovered" else None
        course = course_of(shape, rng, self.clock, begin, end)
        levers = self._quiet.copy()
        inner = self._seed.generator("injection", attempt)
        kind.acts(Injection(self.graph, self.clock, inner, levers, target, edge, course, strength))
        alone = Levers()
        again = self._seed.generator("injection", attempt)
        kind.acts(Injection(self.graph, self.clock, again, alone, target, edge, course, strength))
        history = self._computed(levers, begin)
        counts = self._count(history, levers)
        signals = Signals(self.graph, history, counts, self._seed)
        fault = AppliedFault(kind, target, edge, course, strength, alone)
        picked = self._pick_alert(signals, fault, begin, rng)
        if picked is None:
            return None
        rule, fired = picked
        world = World(
            self._seed,
            story,
            self.graph,
            self.clock,
            self.entries,
            history,
            counts,
            levers,
            fault,
            rule,
            fired,
            self._window(fired, end, rng),
            (),
            None,
            self.bystanders,
            False,
            self.calm,
        )
        return self._changed(world, rng)

    def _computed(self, levers: Levers, begin: int) -> History:
        """The calm history until shortly before the fault, the faulty one from there on."""
        warm_up_start = max(0, begin - SCALE_DELAY - SCALE_WINDOW)
        later = self._physics(levers, slice(warm_up_start, self.clock.steps)).run(
            self.calm, warm_up_start
        )
        # Autoscaling looks back: its first steps only serve to know the replicas.
        return self.calm.replaced(later, begin)

    def _pick_alert(
        self, signals: Signals, fault: AppliedFault, begin: int, rng: np.random.Generator
    ) -> tuple[Rule, int] | None:
        """A rule that fires with the fault and not without it."""
        firing = []
        weights = []
        hit = fault.units_hit(self.graph)
        for rule in draw_rules(self.graph, self._calm_signals, begin, self._seed):
            fired = rule.fires(signals.series(rule.unit, rule.signal, rule.window), begin)
            if fired is None or fired > self.clock.steps - AFTER_ALERT:
                continue
            calm = self._calm_signals.series(rule.unit, rule.signal, rule.window)
            # Neither alone nor nearly: an alert that something else had almost raised would make
            # the last straw its cause.
            if calm[begin:].max() > NEARLY * rule.threshold:
                continue
            firing.append((rule, fired))
            # People watch front doors most; alerts on the culprit itself are the easy third.
            front = self.graph.units[rule.unit].kind is UnitKind.FRONT
            weights.append((2.0 if front else 1.0) * (0.5 if rule.unit in hit else 1.0))
        if not firing:
            return None
        chances = np.array(weights) / np.sum(weights)
        return firing[int(rng.choice(len(firing), p=chances))]

    def _window(self, fired: int, end: int | None, rng: np.random.Generator) -> tuple[int, int]:
        run_up = int(rng.uniform(3, 15) * 60 / STEP_S)
        after = int(rng.uniform(5, 30) * 60 / STEP_S)
        last = fired + after
        if end is not None:
            last = max(last, min(end + 40, fired + AFTER_ALERT))
        return fired - run_up, min(last, self.clock.steps - 1)

    def _changed(self, world: World, rng: np.random.Generator) -> World:
        """The world with its changes, the guilty one among them where a change did it."""
        assert world.fault is not None
        changes = usual_changes(self.graph, self.clock, world.fault.begins, self._seed)
        guilty = None
        if rng.random() < world.fault.kind.changed:
            kind = str(rng.choice(world.fault.kind.change_kinds))
            at_s = self.clock.at(world.fault.begins - guilty_delay(rng))
            name = world.fault.subject(self.graph)
            made = draw_change(rng, at_s, name, kind, world.fault.kind.theme, bad=True)
            changes.append(made)
            guilty = made.id
        return replace(world, changes=self._until_end(world, changes), guilty=guilty)

    def _until_end(self, world: World, changes: list[RecordedChange]) -> tuple[RecordedChange, ...]:
        last = self.clock.at(world.window[1])
        return tuple(sorted((c for c in changes if c.at_s <= last), key=lambda c: c.at_s))

    def _without_fault(self, rng: np.random.Generator) -> World:
        """A calm world: its alert is about noise, the season, a batch job, or about nothing."""
        begin = self.baseline
        end = self.clock.steps - AFTER_ALERT
        near = self._near_bystanders()
        rule: Rule | None = None
        story = "noise"
        # One in eight alerts is about nothing at all: a stale rule, a broken probe, a test.
        for _ in range(0 if rng.random() < 0.12 else 20):
            unit = int(rng.choice(self.graph.of_kind(*WATCHED)))
            signal = str(rng.choice((ERRORS, LATENCY, LATENCY, RATE, CPU)))
            if unit in near or self.graph.units[unit].kind is UnitKind.QUEUE:
                continue
            rule = tight_rule(unit, signal, self._calm_signals, begin, end, rng)
            if rule is not None:
                story = "season" if signal in (RATE, CPU) else "noise"
                break
        if rule is None:
            story = "false"
            rule = Rule(self.graph.routes[0].front, ERRORS, 0.01, 4, 4)
        series = self._calm_signals.series(rule.unit, rule.signal, rule.window)
        fired = rule.fires(series, begin)
        if fired is None or fired >= end:
            fired = begin + int(rng.integers(0, 200))
        world = World(
            self._seed,
            story,
            self.graph,
            self.clock,
            self.entries,
            self.calm,
            self.calm_counts,
            self._quiet,
            None,
            rule,
            fired,
            self._window(fired, None, rng),
            (),
            None,
            self.bystanders,
            True,
            self.calm,
        )
        changes = usual_changes(self.graph, self.clock, fired, self._seed)
        return replace(world, changes=self._until_end(world, changes))

    def _near_bystanders(self) -> set[int]:
        near: set[int] = set()
        for bystander in self.bystanders:
            near.update(self.graph.hops_to(self.graph.index(bystander.subject)))
            near.update(self.graph.hops_from(self.graph.index(bystander.subject)))
        return near


def _baseline_hours(rng: np.random.Generator, units: int) -> float:
    """2 to 24 h; large systems get less, as nobody fetches a day of a thousand series."""
    most = 24.0 if units <= 40 else 6.0 if units <= 120 else 3.0
    return float(np.exp(rng.uniform(np.log(2.0), np.log(most))))
