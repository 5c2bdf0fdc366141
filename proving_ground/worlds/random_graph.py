"""Random layered systems of 4 to 300 units."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from proving_ground.worlds import names
from proving_ground.worlds.graph import (
    CallEdge,
    Floats,
    Graph,
    Machine,
    Replica,
    Route,
    Unit,
    UnitKind,
)
from proving_ground.worlds.seeds import WorldSeed

SMALLEST, LARGEST = 4, 300
BUSY = 0.32
"""Mean utilisation at the mean load: typical of fleets that scale on 50-60 % CPU at peak."""
PODS_PER_MACHINE = 6

K = UnitKind


@dataclass
class _Draft:
    """A graph while it is drawn; layers rise along calls."""

    kinds: list[UnitKind] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    layers: list[float] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    cache_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """(caller, database) to the cache in front of it."""

    def add(self, kind: UnitKind, name: str, layer: float) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self.layers.append(layer)
        return len(self.kinds) - 1

    def connect(self, caller: int, callee: int) -> None:
        if (caller, callee) not in self.edges:
            self.edges.append((caller, callee))


def random_size(rng: np.random.Generator) -> int:
    """Log-uniform between the limits, most between 8 and 60: teams' own views lie there."""
    if rng.random() < 0.8:
        return round(math.exp(rng.uniform(math.log(8), math.log(60))))
    return round(math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST))))


def random_graph(seed: WorldSeed, size: int | None = None) -> Graph:
    """A system of about `size` units with its calls, routes and places."""
    rng = seed.generator("graph")
    requested_size = random_size(rng) if size is None else size
    draft = _draw_units(rng, max(SMALLEST, min(LARGEST, requested_size)))
    return _finish(rng, _in_call_order(draft))


def _draw_units(rng: np.random.Generator, size: int) -> _Draft:
    book = names.NameBook(rng)
    draft = _Draft()
    fronts = 1 if size < 12 else int(rng.integers(1, min(4, 2 + size // 40) + 1))
    for _ in range(fronts):
        draft.add(K.FRONT, book.front(), 0)
    services = max(1, round(size * rng.uniform(0.5, 0.68)) - fronts)
    depth = int(np.clip(rng.integers(2, 4) + size // 40, 1, 7))
    for number in range(services):
        # The first services fill each layer once, so that no layer is empty.
        layer = number + 1 if number < depth else int(rng.integers(1, depth + 1))
        draft.add(K.SERVICE, book.service(), layer)
    _connect_services(rng, draft)
    _add_stores(rng, draft, book, size)
    return draft


def _connect_services(rng: np.random.Generator, draft: _Draft) -> None:
    """Every service has a caller in a layer above; a few have several, popular ones many."""
    popularity = rng.pareto(1.6, len(draft.kinds)) + 0.3
    for unit in range(len(draft.kinds)):
        if draft.kinds[unit] is K.FRONT:
            continue
        above = [n for n in range(len(draft.kinds)) if draft.layers[n] < draft.layers[unit]]
        near = [n for n in above if draft.layers[n] >= draft.layers[unit] - 1] or above
        callers = 1 + rng.binomial(2, 0.3)
        chosen = _some(rng, near, callers, popularity)
        for caller in chosen:
            draft.connect(caller, unit)
    for front in [n for n, kind in enumerate(draft.kinds) if kind is K.FRONT]:
        first = [n for n, layer in enumerate(draft.layers) if layer == 1]
        for callee in _some(rng, first, 2, popularity):
            draft.connect(front, callee)


def _add_stores(rng: np.random.Generator, draft: _Draft, book: names.NameBook, size: int) -> None:
    """Databases, caches, workers behind queues and providers until the size is reached."""
    services = [n for n, kind in enumerate(draft.kinds) if kind is K.SERVICE]
    bottom = max(draft.layers) + 1
    databases = [_add_database(rng, draft, book, services, bottom)]
    while len(draft.kinds) < size:
        room = size - len(draft.kinds)
        draw = rng.random()
        if draw < 0.45:
            databases.append(_add_database(rng, draft, book, services, bottom))
        elif draw < 0.65:
            _add_cache(rng, draft, book, databases, bottom)
        elif draw < 0.8 and room >= 2:
            _add_worker(rng, draft, book, services, databases, bottom)
        else:
            provider = draft.add(K.EXTERNAL, book.external(), bottom + 3)
            for caller in _some(rng, services, 1 + int(rng.random() < 0.3)):
                draft.connect(caller, provider)


def _add_database(
    rng: np.random.Generator,
    draft: _Draft,
    book: names.NameBook,
    services: list[int],
    bottom: float,
) -> int:
    users = _some(rng, services, 1 + rng.binomial(3, 0.25))
    name = book.store(draft.names[users[0]], names.DATABASES)
    database = draft.add(K.DATABASE, name, bottom + 2)
    for user in users:
        draft.connect(user, database)
    return database


def _add_cache(
    rng: np.random.Generator,
    draft: _Draft,
    book: names.NameBook,
    databases: list[int],
    bottom: float,
) -> None:
    """A cache in front of one database, for one or two of its users."""
    database = int(rng.choice(databases))
    free = []
    for caller, callee in draft.edges:
        if callee == database and (caller, callee) not in draft.cache_of:
            free.append(caller)
    if not free:
        return
    users = _some(rng, free, 2)
    cache = draft.add(K.CACHE, book.store(draft.names[users[0]], names.CACHES), bottom + 2)
    for user in users:
        draft.connect(user, cache)
        draft.cache_of[user, database] = cache


def _add_worker(
    rng: np.random.Generator,
    draft: _Draft,
    book: names.NameBook,
    services: list[int],
    databases: list[int],
    bottom: float,
) -> None:
    producer = int(rng.choice(services))
    queue = draft.add(K.QUEUE, book.store(draft.names[producer], names.QUEUES), bottom)
    worker = draft.add(K.WORKER, f"{draft.names[queue]}-worker", bottom + 1)
    draft.connect(producer, queue)
    draft.connect(queue, worker)
    if databases:
        draft.connect(worker, int(rng.choice(databases)))


def _some(
    rng: np.random.Generator, among: list[int], count: int, weights: Floats | None = None
) -> list[int]:
    chances = None
    if weights is not None:
        chances = weights[among] / weights[among].sum()
    picked = rng.choice(among, size=min(count, len(among)), replace=False, p=chances)
    return [int(index) for index in picked]


def _in_call_order(draft: _Draft) -> _Draft:
    """Number units by layer, so that calls go from lower to higher numbers."""
    order = sorted(range(len(draft.kinds)), key=lambda n: (draft.layers[n], n))
    place = {old: new for new, old in enumerate(order)}
    ordered = _Draft(
        kinds=[draft.kinds[n] for n in order],
        names=[draft.names[n] for n in order],
        layers=[draft.layers[n] for n in order],
    )
    ordered.edges = sorted((place[a], place[b]) for a, b in draft.edges)
    for (caller, database), cache in draft.cache_of.items():
        ordered.cache_of[place[caller], place[database]] = place[cache]
    return ordered


def _finish(rng: np.random.Generator, draft: _Draft) -> Graph:
    per_request = _calls_per_request(rng, draft)
    misses = _misses(rng, draft)
    routes = _routes(rng, draft, per_request * misses)
    mean_rate = math.exp(rng.uniform(math.log(40), math.log(1200)))
    rates = np.zeros(len(draft.kinds))
    for route in routes:
        rates += mean_rate * route.share * route.visits
    machines = _machines(rng, len(draft.kinds))
    units = _units(rng, draft, rates, machines)
    units, machines = _name_pods(rng, units, machines)
    edges = _edges(rng, draft, units, rates, per_request, misses, routes, mean_rate)
    return Graph(_system(rng), units, edges, routes, machines, mean_rate)


def _system(rng: np.random.Generator) -> str:
    return f"{rng.choice(('shop', 'bank', 'travel', 'media', 'fleet', 'market'))}-sim"


def _calls_per_request(rng: np.random.Generator, draft: _Draft) -> Floats:
    """Calls along each edge per request of its caller, before caches; shape [edges]."""
    calls = np.empty(len(draft.edges))
    for number, (_, callee) in enumerate(draft.edges):
        kind = draft.kinds[callee]
        if kind in (K.DATABASE, K.CACHE):
            calls[number] = rng.choice((1.0, 1.0, 2.0, 3.0))
        elif kind is K.WORKER:
            calls[number] = 1.0
        elif kind in (K.QUEUE, K.EXTERNAL):
            calls[number] = rng.uniform(0.1, 1.0)
        else:
            calls[number] = rng.choice((0.2, 0.5, 1.0, 1.0, 1.0, 1.5))
    return calls


def _misses(rng: np.random.Generator, draft: _Draft) -> Floats:
    """The share of calls along each edge that a cache lets through; 1 without a cache."""
    misses = np.ones(len(draft.edges))
    for number, edge in enumerate(draft.edges):
        if edge in draft.cache_of:
            misses[number] = rng.uniform(0.03, 0.2)
    return misses


def _routes(rng: np.random.Generator, draft: _Draft, per_request: Floats) -> tuple[Route, ...]:
    """Two to eight routes per front door. Each takes some of the front's calls and most of the
    calls below, and is visited in proportion; a unit that no route reaches joins the last one."""
    fronts = [n for n, kind in enumerate(draft.kinds) if kind is K.FRONT]
    routes: list[Route] = []
    for front in fronts:
        for number in range(int(rng.integers(2, 6))):
            rare = number > 0 and rng.random() < 0.25
            share = rng.dirichlet((2.0, 2.0))[0] * (0.003 if rare else 1.0)
            edge_mask = rng.random(len(draft.edges)) < (0.55 if number else 0.9)
            routes.append(_route(draft, per_request, edge_mask, front, share, rare, len(routes)))
    reached = np.zeros(len(draft.kinds))
    for route in routes:
        reached += route.visits
    if (reached <= 0).any():
        # A route over everything keeps each unit in use; its share is small.
        everything = np.ones(len(draft.edges), dtype=bool)
        for front in fronts:
            routes.append(_route(draft, per_request, everything, front, 0.1, False, len(routes)))
    total = sum(route.share for route in routes)
    return tuple(replace(route, share=route.share / total) for route in routes)


def _route(
    draft: _Draft,
    per_request: Floats,
    edge_mask: np.ndarray,
    front: int,
    share: float,
    rare: bool,
    number: int,
) -> Route:
    visits = np.zeros(len(draft.kinds))
    calls = np.zeros(len(draft.edges))
    visits[front] = 1.0
    for edge, (caller, callee) in enumerate(draft.edges):
        # What a queue holds is always worked on, and stores belong to whoever runs.
        always = draft.kinds[callee] in (K.WORKER, K.DATABASE, K.CACHE)
        if edge_mask[edge] or always:
            calls[edge] = visits[caller] * per_request[edge]
            visits[callee] += calls[edge]
    verb = ("GET", "POST", "GET", "GET", "PUT")[number % 5]
    name = f"{verb} /{names.WORDS[(number * 37 + len(visits)) % len(names.WORDS)]}"
    return Route(name, front, float(share), rare, visits, calls)


def _machines(rng: np.random.Generator, units: int) -> tuple[Machine, ...]:
    clusters = 2 if units > 10 and rng.random() < 0.3 else 1
    zones = int(rng.integers(2, 4))
    count = max(zones * clusters, int(np.ceil(units * 2.2 / PODS_PER_MACHINE)))
    style = str(rng.choice(("node-", "ip-10-0-", "worker", "gke-pool-")))
    region = str(rng.choice(("eu-west-1", "us-east-1", "europe-west4", "zone")))
    machines = []
    for number in range(count):
        cluster = f"cluster-{'ab'[number % clusters]}"
        zone = f"{region}{'abc'[(number // clusters) % zones]}"
        machines.append(Machine(f"{style}{number + 1:02d}", zone, cluster))
    return tuple(machines)


def _units(
    rng: np.random.Generator, draft: _Draft, rates: Floats, machines: tuple[Machine, ...]
) -> tuple[Unit, ...]:
    units = []
    for number, kind in enumerate(draft.kinds):
        # Deep systems get by with less work per request: nobody ships a page that takes 8 s.
        self_s = _self_time(rng, kind) * min(1.0, (40 / len(draft.kinds)) ** 0.5)
        work = rates[number] * self_s
        busy = BUSY * rng.uniform(0.4, 1.7)
        # Replicas are as large as the work needs: a rarely called service has a tenth of a core.
        pods = max(_fewest_pods(rng, kind), min(10, int(np.ceil(work / busy / 4))))
        slots = max(0.05, work / busy / pods)
        placed = tuple(
            Replica("", int(machine)) for machine in rng.integers(0, len(machines), size=pods)
        )
        if kind is K.EXTERNAL:
            placed = (Replica("", -1),)
            slots = max(64.0, work / 0.2)
        scales = kind in (K.FRONT, K.SERVICE, K.WORKER) and rng.random() < 0.4
        units.append(
            Unit(
                name=draft.names[number],
                kind=kind,
                pods=placed,
                self_s=self_s,
                spread=float(rng.uniform(0.35, 1.1)),
                slots=slots,
                threads=int(max(24, work / self_s * 2.5 / pods * rng.uniform(0.3, 1.5))),
                longest_wait_s=float(rng.uniform(1.0, 8.0)),
                failing=float(10 ** rng.uniform(-5.0, -2.9)),
                most_pods=pods * 3 if scales else pods,
                memory_mb=float(rng.uniform(150, 1800)),
            )
        )
    return tuple(units)


def _self_time(rng: np.random.Generator, kind: UnitKind) -> float:
    """Seconds of own work per request: log-uniform within what is usual for the kind."""
    low, high = {
        K.FRONT: (0.001, 0.006),
        K.SERVICE: (0.002, 0.04),
        K.WORKER: (0.02, 0.3),
        K.QUEUE: (0.0005, 0.002),
        K.DATABASE: (0.001, 0.012),
        K.CACHE: (0.0003, 0.001),
        K.EXTERNAL: (0.03, 0.3),
    }[kind]
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _fewest_pods(rng: np.random.Generator, kind: UnitKind) -> int:
    if kind in (K.DATABASE, K.CACHE, K.QUEUE, K.EXTERNAL):
        return 1
    return int(rng.integers(1, 5))


def _name_pods(
    rng: np.random.Generator, units: tuple[Unit, ...], machines: tuple[Machine, ...]
) -> tuple[tuple[Unit, ...], tuple[Machine, ...]]:
    named = []
    letters = "bcdfghjklmnpqrstvwxz2456789"
    for unit in units:
        deployment = "".join(rng.choice(list(letters), size=9))
        pods = []
        for number, pod in enumerate(unit.pods):
            tail = "".join(rng.choice(list(letters), size=5))
            whole = f"{unit.name.lower()}-{deployment}-{tail}"
            if unit.kind in (K.DATABASE, K.CACHE, K.QUEUE):
                whole = f"{unit.name.lower()}-{number}"
            pods.append(Replica(whole, pod.machine))
        named.append(replace(unit, pods=tuple(pods)))
    return tuple(named), machines


def _edges(
    rng: np.random.Generator,
    draft: _Draft,
    units: tuple[Unit, ...],
    rates: Floats,
    per_request: Floats,
    misses: Floats,
    routes: tuple[Route, ...],
    mean_rate: float,
) -> tuple[CallEdge, ...]:
    usual = _usual_latency(draft, units, per_request * misses)
    edges = []
    for number, (caller, callee) in enumerate(draft.edges):
        calls_s = mean_rate * sum(route.share * route.calls[number] for route in routes)
        kind = draft.kinds[callee]
        queued = K.WORKER is kind
        deadline = _deadline(rng, usual[callee], len(units))
        concurrency = calls_s * usual[callee]
        edges.append(
            CallEdge(
                caller=caller,
                callee=callee,
                deadline_s=math.inf if queued else deadline,
                attempts=int(rng.choice((1, 1, 2, 3))) if not queued else 1,
                absorbs=_absorbs(rng, kind),
                pool=_pool(rng, concurrency) if kind is K.DATABASE else 0,
                cache=draft.cache_of.get((caller, callee), -1),
                miss=float(misses[number]),
                waits=not queued,
            )
        )
    return tuple(edges)


def _usual_latency(draft: _Draft, units: tuple[Unit, ...], per_request: Floats) -> Floats:
    """Mean seconds below each unit in quiet times; shape [units]."""
    usual = np.array([unit.self_s for unit in units])
    for number in range(len(draft.edges) - 1, -1, -1):
        caller, callee = draft.edges[number]
        if draft.kinds[callee] is not K.WORKER:
            usual[caller] += min(per_request[number], 4.0) * usual[callee]
    return usual


def _deadline(rng: np.random.Generator, usual_s: float, units: int) -> float:
    """A round time-out well above what is usual; some callers never set a tight one."""
    least = usual_s * rng.uniform(6, 25)
    for rounded in (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0):
        if rounded >= least:
            return rounded
    return 60.0


def _absorbs(rng: np.random.Generator, kind: UnitKind) -> float:
    """Caches are optional for their callers; a fifth of the other calls have a fallback."""
    if kind is K.CACHE:
        return 0.97
    if kind is K.QUEUE:
        return float(rng.choice((0.0, 0.9)))
    return float(rng.choice((0.0, 0.0, 0.0, 0.0, 0.95)))


def _pool(rng: np.random.Generator, concurrency: float) -> int:
    return int(max(8, np.ceil(concurrency * rng.uniform(4, 12))))
