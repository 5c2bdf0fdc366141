"""One incident of a kind in the system of a seed: who plays which role, what is bent when, and
which changes were made."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from proving_ground.plain.generator.cluster_metrics import ClusterMetrics
from proving_ground.plain.generator.flow import Clock, Floats, Flow, edge
from proving_ground.plain.generator.kinds import Bend, Change, Kind
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.request_metrics import RequestMetrics
from proving_ground.plain.generator.store_metrics import StoreMetrics
from proving_ground.plain.generator.system import (
    MONITORED,
    Pod,
    System,
    generator_for,
    pod_ip,
    random_system,
)

HOURS = 7.0
SLOW_SCRAPE_S = 60
"""Kubelets, nodes and exporters are scraped no more often than that."""
JOBS = ("nightly-export", "reindex-all", "ledger-reconcile", "report-rollup")
CYCLE_S = 2400.0
"""Between two kills of a container that leaks."""
OF_PODS = ("self_ms", "self_errors", "capacity", "cpu", "memory", "throttled")
"""Levers that every pod has."""
HIDDEN = {"dns": "coredns"}
"""Targets that are no service of the system."""


@dataclass(frozen=True)
class MadeChange:
    """A change that somebody made. `at_s` is its time, before the last sample."""

    id: str
    kind: str
    service: str
    title: str
    at_s: float
    is_guilty: bool


@dataclass
class Incident:
    """Everything about one incident."""

    kind: Kind
    seed: int
    attempt: int
    system: System
    cast: dict[str, str]
    onset_s: float
    flow: Flow
    changes: list[MadeChange] = field(default_factory=list)
    coarse: int = 1

    @property
    def guilty(self) -> MadeChange | None:
        """The change that is to blame."""
        return next((change for change in self.changes if change.is_guilty), None)

    def exposition(self, end: int) -> Exposition:
        """Its series, with the last sample at `end`."""
        exposition = Exposition(self.flow.clock, end, self.coarse)
        RequestMetrics(self.flow, exposition).write()
        ClusterMetrics(self.flow, exposition).write()
        StoreMetrics(self.flow, exposition).write()
        return exposition


def draw(kind: Kind, seed: int, attempt: int, hours: float) -> Incident:
    """One draw, with its series computed."""
    number = zlib.crc32(f"{kind.name} {seed} {attempt}".encode())
    system = random_system(number, **kind.fixed)
    if kind.name == "daily peak":
        # The curve's top is reached as the alert fires.
        system.swing, system.swing_phase = 0.45, float(np.pi / 2)
    rng = generator_for(system.seed, "incident")
    cast = draw_cast(rng, system)
    clock = Clock.of(system.scrape_s, hours, 2 if kind.name == "daily peak" else 0)
    onset_s = -60 * float(rng.uniform(*kind.onset_min))
    flow = Flow(system, clock)
    coarse = max(1, SLOW_SCRAPE_S // system.scrape_s)
    incident = Incident(kind, seed, attempt, system, cast, onset_s, flow, coarse=coarse)
    make_changes(rng, incident)
    for bend in kind.bends:
        apply(incident, bend)
    schedule_restarts(rng, incident)
    flow.jobs = {role: cast[role] for role in ("job", "noisy")}
    flow.settle()
    return incident


def draw_cast(rng: np.random.Generator, system: System) -> dict[str, str]:
    """Who plays which role."""
    (front,) = system.of_role("front")
    apps = system.of_role("app")
    service = apps[int(rng.integers(len(apps)))]
    (cache,), (queue,), (worker,) = (system.of_role(r) for r in ("cache", "queue", "worker"))
    (provider,) = system.of_role("provider")
    user = next(
        s for s in reversed(apps) if any(c.callee == cache.name for c in system.calls_of(s.name))
    )
    database = next(
        call.callee
        for call in system.calls_of(user.name)
        if system.services[call.callee].role == "database"
    )
    node = service.pods[0].node
    store = (system.services[database], cache)[int(rng.integers(2))]
    return {
        "front": front.name,
        "service": service.name,
        "caller": str(rng.choice(system.callers_of(service.name))),
        "user": user.name,
        "database": database,
        "volume": f"data-{database}-0",
        "cache": cache.name,
        "cache_user": user.name,
        "queue": queue.name,
        "worker": worker.name,
        "producer": system.callers_of(queue.name)[0],
        "provider": provider.name,
        "provider_user": system.callers_of(provider.name)[0],
        "pod": service.pods[0].name,
        "node": node,
        "zone": system.nodes[node].zone,
        "dns": HIDDEN["dns"],
        "noisy": str(rng.choice(("video-encode", "ml-training", "ci-runner"))),
        "job": str(rng.choice(JOBS)),
        "exporter": store.name,
        "exporter_job": MONITORED[store.role],
        "exporter_service": f"{store.name}-exporter",
    }


def pods_of(incident: Incident, target: str) -> Iterator[str]:
    """The pods that a bend's target means."""
    system = incident.system
    role, _, part = target.partition("/")
    for service in system.services.values():
        for pod in service.pods:
            if role == "node":
                chosen = pod.node == incident.cast["node"]
            elif role == "zone":
                chosen = bool(pod.node) and system.zone_of(pod) == incident.cast["zone"]
            else:
                chosen = service.name == incident.cast.get(role)
            if part == "pod":
                chosen = chosen and pod.name == incident.cast["pod"]
            elif part == "new":
                chosen = chosen and pod.begin_s is not None
            if chosen:
                yield pod.name


def targets_of(incident: Incident, bend: Bend) -> Iterator[str]:
    """The names of what a bend moves: calls, pods, machines, or a service as a whole."""
    system, cast = incident.system, incident.cast
    if bend.target == "every call":
        yield from (edge(call) for call in system.calls)
    elif ">" in bend.target:
        caller, _, callee = bend.target.partition(">")
        for call in system.calls:
            if call.callee == cast[callee] and caller in (
                "*",
                role_of(incident, call.caller, caller),
            ):
                yield edge(call)
    elif bend.lever in OF_PODS:
        yield from pods_of(incident, bend.target)
    elif bend.lever == "retransmits":
        yield from (node.name for node in system.nodes.values() if node.zone == cast["zone"])
    elif bend.lever == "runs":
        yield bend.target
    else:
        yield cast[bend.target]


def role_of(incident: Incident, name: str, role: str) -> str:
    """The role, where that service plays it."""
    return role if incident.cast.get(role) == name else ""


def apply(incident: Incident, bend: Bend) -> None:
    """Move what a bend moves."""
    shape = shape_of(incident, bend.shape)
    if bend.lever in ("gone", "scaled"):
        name = incident.cast[bend.target]
        survivors = 0 if bend.lever == "gone" else 1
        for pod in incident.system.services[name].pods[survivors:]:
            pod.end_s = incident.onset_s
    for target in list(targets_of(incident, bend)):
        incident.flow.bend(bend.lever, target, bend.amount, shape)
    if bend.lever == "node_cpu":
        incident.flow.bend("runs", "noisy", 1.0, shape)


def shape_of(incident: Incident, shape: str) -> Floats:
    """From 0 to 1 over time."""
    since = incident.flow.clock.seconds - incident.onset_s
    begun = (since >= 0).astype(float)
    if shape == "step":
        return begun
    if shape == "up to it":
        return np.clip(1 + since / (3 * 3600), 0, 1)
    if shape == "spike":
        return begun * (since < 240)
    if shape == "fade":
        return begun * np.exp(-np.maximum(since, 0) / 1800)
    if shape in ("saw", "end of saw"):
        # The last container was killed at the onset, and the one before it 40 minutes earlier.
        part = (since % CYCLE_S) / CYCLE_S * (since > -6 * 3600)
        near = np.maximum(np.clip((part - 0.93) / 0.05, 0, 1), (part < 0.06) & (since > -6 * 3600))
        return part if shape == "saw" else near
    length_s = 300 if shape == "ramp" else 1500
    return np.clip(since / length_s, 0, 1)


def make_changes(rng: np.random.Generator, incident: Incident) -> None:
    """The kind's change, and up to two that harm nobody, hours before."""
    change, cast, system = incident.kind.change, incident.cast, incident.system
    for name in {service.name for service in system.of_role("front", "app", "worker")}:
        incident.flow.levers["rolled_at", name] = np.zeros(1)
        incident.flow.levers["configured_at", name] = np.zeros(1)
    if change is not None:
        make_change(rng, incident, cast[change.role], change, incident.onset_s - change.before_s)
    apps = [s for s in system.of_role("app", "worker") if not change or s.name != cast[change.role]]
    for number in range(min(int(rng.integers(0, 3)), len(apps))):
        innocent = apps[int(rng.integers(len(apps)))]
        if any(made.service == innocent.name for made in incident.changes):
            continue
        at_s = -float(rng.uniform(3000, 5 * 3600)) - 600 * number
        make_change(rng, incident, innocent.name, Change("deploy", "", "Deploy {name} {new}"), at_s)


def make_change(
    rng: np.random.Generator, incident: Incident, name: str, change: Change, at_s: float
) -> None:
    """Roll it out, and note it."""
    service = incident.system.services[name]
    words = incident.cast | {
        "new": service.next_version,
        "name": name,
        "replicas": str(len(service.pods)),
    }
    identity = "".join(rng.choice(list("0123456789abcdef"), 8))
    is_guilty = bool(change.role) and incident.kind.story == "incident"
    made = MadeChange(identity, change.kind, name, change.title.format_map(words), at_s, is_guilty)
    incident.changes.append(made)
    if change.kind == "config":
        incident.flow.levers["configured_at", name] = np.array([at_s])
    if not change.rolls:
        return
    incident.flow.levers["rolled_at", name] = np.array([at_s])
    version = service.next_version if change.kind == "deploy" else service.version
    replica_set = f"{service.name}-{''.join(rng.choice(list('bcdfghjkl56789'), 9))}"
    count = max(1, round(change.replaced * len(service.pods)))
    for number, pod in enumerate(list(service.pods[:count])):
        begin_s = at_s + 15 + 12 * number
        digest = "".join(rng.choice(list("bcdfghjkl56789"), 5))
        if change.replaced > 0.4:
            pod.end_s = begin_s + 8
        service.pods.append(Pod(f"{replica_set}-{digest}", pod.node, pod_ip(rng), version, begin_s))


def schedule_restarts(rng: np.random.Generator, incident: Incident) -> None:
    """When containers die."""
    kind, onset_s = incident.kind, incident.onset_s
    if not kind.restarts:
        return
    service = incident.system.services[incident.cast["service"]]
    for number, pod in enumerate(service.pods):
        if pod.end_s is not None or (kind.change and pod.begin_s is None):
            continue
        if kind.restarts == "cycle":
            kills = [onset_s - CYCLE_S * cycle + 8 * number for cycle in range(9)]
            pod.restarts_s = sorted(
                at_s for at_s in kills if at_s > incident.flow.clock.seconds[0] + 600
            )
            continue
        at_s = onset_s + 60 + 50 * number
        while at_s < -20:
            pod.restarts_s.append(at_s)
            at_s += float(rng.uniform(150, 240))
