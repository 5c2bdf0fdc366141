"""A random system: who calls whom, where it runs, and how it is watched."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from proving_ground.plain.generator.names import NAMESPACES, NameBook

Role = Literal["front", "app", "worker", "database", "cache", "queue", "provider"]
APPS: tuple[Role, ...] = ("front", "app", "worker")
FAMILIES = ("golang", "otel", "micrometer", "grpc", "otel_rpc")
HAS_CLIENT_METRICS = ("otel", "micrometer", "otel_rpc", "grpc")
MONITORED = {"database": "postgres-exporter", "cache": "redis-exporter", "queue": "kafka-exporter"}
"""The exporter of each kind of store."""
LABEL_STYLES = ("operator", "annotations", "static")
"""Labels of targets: Prometheus Operator's ServiceMonitor, annotated pods, or a static list."""


def generator_for(seed: int, *topic: str) -> np.random.Generator:
    """Random numbers for one topic: draws for one never shift those of another."""
    words = [zlib.crc32(part.encode()) for part in topic]
    return np.random.default_rng(np.random.SeedSequence([0x914, seed, *words]))


@dataclass
class Pod:
    """A replica. It lives from `begin` to `end`, in seconds before the last sample (None: all the
    time), and ends its life `restarts` times in between."""

    name: str
    node: str
    ip: str
    version: str
    begin_s: float | None = None
    end_s: float | None = None
    restarts_s: list[float] = field(default_factory=list)


@dataclass
class Service:
    """A node of the graph. Latency in ms without waiting and without callees."""

    name: str
    role: Role
    depth: int
    family: str
    self_ms: float
    version: str
    next_version: str
    memory: float
    pods: list[Pod] = field(default_factory=list)

    @property
    def replicas(self) -> int:
        """How many pods it had before anything happened."""
        return sum(pod.begin_s is None for pod in self.pods)


@dataclass
class Call:
    """An edge. `required`: where it fails, the caller's request fails."""

    caller: str
    callee: str
    per_request: float
    timeout_s: float
    required: bool = True


@dataclass
class Node:
    """A machine."""

    name: str
    zone: str
    ip: str


@dataclass
class System:
    """Everything about it that stays as it is."""

    seed: int
    services: dict[str, Service]
    calls: list[Call]
    nodes: dict[str, Node]
    namespace: str
    staging: str | None
    """The namespace in which services of the same names run for tests."""
    front_rate: float
    swing: float
    """Of the day curve, as a share of the mean."""
    swing_phase: float
    scrape_s: int
    label_style: str
    calls_by: Literal["client metrics", "mesh", "settings", "unknown"]
    changes_by: Literal["kube-state-metrics", "annotations", "webhook"]
    has_ingress: bool
    honor_labels: bool
    """Whether exporters' labels win over those of their target."""

    def of_role(self, *roles: str) -> list[Service]:
        """The services of these roles."""
        return [service for service in self.services.values() if service.role in roles]

    def calls_of(self, caller: str) -> list[Call]:
        """What a service calls."""
        return [call for call in self.calls if call.caller == caller]

    def callers_of(self, callee: str) -> list[str]:
        """Who calls a service."""
        return [call.caller for call in self.calls if call.callee == callee]

    def zone_of(self, pod: Pod) -> str:
        """Where a pod runs; none for a provider outside."""
        return self.nodes[pod.node].zone if pod.node in self.nodes else ""

    def ordered(self) -> Iterator[Service]:
        """Callers before callees."""
        yield from sorted(self.services.values(), key=lambda service: service.depth)


def random_system(seed: int, **fixed: str) -> System:
    """The system of a seed; `fixed` are draws that a kind of incident needs."""
    rng = generator_for(seed, "system")
    names = NameBook(rng)
    calls_by = rng.choice(
        ["client metrics", "mesh", "settings", "unknown"], p=[0.3, 0.2, 0.15, 0.35]
    )
    changes_by = rng.choice(["kube-state-metrics", "annotations", "webhook"])
    calls_by = fixed.get("calls_by", str(calls_by))
    graph = GraphBuilder(rng, names, calls_by)
    graph.draw_stores(graph.draw_layers())
    style = str(rng.choice(LABEL_STYLES, p=[0.6, 0.25, 0.15]))
    namespace = str(rng.choice(NAMESPACES))
    system = System(
        seed=seed,
        services=graph.services,
        calls=graph.calls,
        nodes=random_nodes(rng),
        namespace=f"{namespace}-prod",
        staging=f"{namespace}-staging" if rng.random() < 0.5 else None,
        front_rate=float(rng.uniform(15, 60)),
        swing=0.0 if rng.random() < 0.4 else float(rng.uniform(0.2, 0.5)),
        swing_phase=float(rng.uniform(0, 2 * np.pi)),
        scrape_s=int(rng.choice((15, 30, 60), p=[0.2, 0.4, 0.4])),
        label_style=style,
        calls_by=calls_by,  # type: ignore[arg-type]
        changes_by=fixed.get("changes_by", str(changes_by)),  # type: ignore[arg-type]
        has_ingress=calls_by != "mesh" and bool(rng.random() < 0.4),
        honor_labels=bool(rng.random() < 0.7),
    )
    place_pods(rng, names, system)
    return system


class GraphBuilder:
    """Draws a front door, two or three layers of services, and what they store and call."""

    def __init__(self, rng: np.random.Generator, names: NameBook, calls_by: str) -> None:
        self.rng = rng
        self.names = names
        self.families = list(HAS_CLIENT_METRICS if calls_by == "client metrics" else FAMILIES)
        if calls_by == "mesh":
            self.families = ["istio"]
        self.company = str(rng.choice(self.families))
        self.is_uniform = rng.random() < 0.6
        self.services: dict[str, Service] = {}
        self.calls: list[Call] = []

    def add(self, name: str, role: Role, depth: int, fastest_ms: float, slowest_ms: float) -> str:
        """A service; gives its name."""
        rng = self.rng
        family = self.company if self.is_uniform else str(rng.choice(self.families))
        # Nothing but HTTP enters from outside.
        if role == "front" and family in ("grpc", "otel_rpc"):
            family = "otel"
        self_ms = float(rng.uniform(fastest_ms, slowest_ms))
        memory = float(rng.uniform(120e6, 700e6))
        version, following = self.names.version()
        self.services[name] = Service(
            name, role, depth, family, self_ms, version, following, memory
        )
        return name

    def connect(self, caller: str, callee: str, per_request: float, timeout_s: float) -> None:
        """A call."""
        self.calls.append(Call(caller, callee, per_request, timeout_s))

    def draw_layers(self) -> list[list[str]]:
        """The front door and the services behind it; gives the names by depth."""
        rng = self.rng
        layers = [[self.add(self.names.front(), "front", 0, 4, 12)]]
        for depth in range(1, int(rng.integers(3, 5))):
            width = int(rng.integers(1, 3)) if depth > 1 else 2
            layer = [self.add(self.names.service(), "app", depth, 5, 30) for _ in range(width)]
            for name in layer:
                callers = [str(caller) for caller in rng.permutation(layers[-1])]
                for caller in callers[: int(rng.integers(1, 3))]:
                    self.connect(caller, name, float(rng.choice((0.5, 1, 1, 2))), 3.0)
            layers.append(layer)
        return layers

    def draw_stores(self, layers: list[list[str]]) -> None:
        """A database, a cache, a provider outside, and a queue with its worker."""
        rng, names, deepest = self.rng, self.names, len(layers)
        apps = [name for layer in layers[1:] for name in layer]
        # The deepest service always stores, so that chains of three calls and more end there.
        user = layers[-1][0]
        database = names.store(user, ("db", "postgres", "pg"))
        self.add(database, "database", deepest, 2, 6)
        self.connect(user, database, float(rng.choice((1, 2, 3))), 5.0)
        for name in apps:
            if name != user and rng.random() < 0.3:
                self.connect(name, database, 1.0, 5.0)
        cache = self.add(names.store(user, ("cache", "redis")), "cache", deepest, 0.3, 0.8)
        self.connect(user, cache, 3.0, 1.0)
        provider = self.add(names.provider(), "provider", deepest, 60, 180)
        self.connect(str(rng.choice(apps)), provider, float(rng.choice((0.1, 0.3, 1))), 10.0)
        producer = str(rng.choice(apps))
        queue = names.store(producer, ("events", "jobs", "topic"))
        self.connect(producer, self.add(queue, "queue", deepest, 1, 3), 0.5, 5.0)
        worker = self.add(names.worker(), "worker", deepest + 1, 20, 60)
        if rng.random() < 0.5:
            archive = names.store(worker, ("db", "pg"))
            self.connect(worker, self.add(archive, "database", deepest + 2, 2, 6), 1.0, 5.0)


def random_nodes(rng: np.random.Generator) -> dict[str, Node]:
    """Three to six machines in two or three zones."""
    zones = [f"eu-central-1{letter}" for letter in "abc"[: int(rng.integers(2, 4))]]
    nodes: dict[str, Node] = {}
    for number in range(2 * len(zones)):
        ip = f"10.{rng.integers(20)}.{rng.integers(255)}.{rng.integers(4, 250)}"
        name = f"ip-{ip.replace('.', '-')}"
        nodes[name] = Node(name, zones[number % len(zones)], ip)
    return nodes


def place_pods(rng: np.random.Generator, names: NameBook, system: System) -> None:
    """Give each service its replicas, spread over nodes."""
    nodes = list(system.nodes)
    for service in system.services.values():
        if service.role == "provider":
            service.pods = [Pod(service.name, "", "", "")]
            continue
        count = 1 if service.role in MONITORED else int(rng.integers(2, 4))
        if service.role == "front":
            count = 3
        replica_set = names.digest(9)
        first = int(rng.integers(len(nodes)))
        for number in range(count):
            name = f"{service.name}-{replica_set}-{names.digest(5)}"
            if service.role in MONITORED:
                name = f"{service.name}-{number}"
            node = nodes[(first + number) % len(nodes)]
            service.pods.append(Pod(name, node, pod_ip(rng), service.version))


def pod_ip(rng: np.random.Generator) -> str:
    """An address in the cluster's network."""
    return f"10.244.{rng.integers(1, 20)}.{rng.integers(2, 250)}"
