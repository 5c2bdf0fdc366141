"""What happens to the requests: rates go down the graph, latencies and failures come up.

The whole time axis is computed at once, unit by unit: within a step of 15 s the system is taken to
be in equilibrium, which a fixed point over (rates with retries) and (latencies, refusals) finds.
What outlives a step is carried in closed form: backlogs of queues and the delay of autoscaling.

A unit's latency is a mixture of two lognormal distributions: `usual`, and for `slow_share` of the
requests one that is `slower_s` longer, so that trouble at one of five replicas is not the same as a
fifth of that trouble at each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.graph import Floats, Graph
from proving_ground.worlds.levers import Levers
from proving_ground.worlds.queueing import backlog, beyond, cut_mean, lognormal, mean_wait

ROUNDS = 4
"""Passes of the fixed point. Refusals change by less than 1 % after four in overloaded worlds."""
FAIL_FAST_S = 0.004
"""How long a refused connection takes."""
SCALE_ON = 0.55
"""CPU share that autoscaling aims at."""
SCALE_DELAY = 8
SCALE_WINDOW = 20
"""Steps until new replicas serve (2 min), and steps whose largest load counts (5 min): the defaults
of Kubernetes' horizontal autoscaler are 15-60 s to decide, start-up, and 5 min to shrink."""
SLOW_SPREAD = 0.45
"""Coefficient of variation of the slow part of a mixture."""


@dataclass
class History:
    """Expected values over time. Units' arrays have shape [units, steps], edges' [edges, steps]."""

    rate: Floats
    """Requests per second that arrive."""
    failing: Floats
    """Share of requests that fail, as their callers see it."""
    refused: Floats
    """Share that is turned away before any work."""
    usual_s: Floats
    variance: Floats
    slow_share: Floats
    slower_s: Floats
    used: Floats
    """CPU or server utilisation, 0-1."""
    concurrency: Floats
    """Requests in work at once."""
    pods: Floats
    waiting: Floats
    """Items in the queue (workers' own column)."""
    attempts: Floats
    """Calls per second along the edge, retries included."""
    arriving: Floats
    """Share of them that reach the callee."""
    call_failing: Floats
    """Share of attempts that fail, time-outs included."""
    timing_out: Floats
    call_s: Floats
    """Mean seconds the caller waits per attempt."""
    pool_used: Floats
    """Share of the pool's connections in use; above 1 callers wait."""
    per_request: Floats
    """First attempts per request that the caller accepted."""

    @classmethod
    def blank(cls, units: int, edges: int, steps: int) -> History:
        """All zero."""
        values = {}
        for field in fields(cls):
            rows = edges if field.name in EDGE_FIELDS else units
            values[field.name] = np.zeros((rows, steps))
        return cls(**values)

    def replaced(self, later: History, begin: int) -> History:
        """This history until step `begin`, then the other, which ends with it."""
        values = {}
        for field in fields(self):
            whole = getattr(self, field.name).copy()
            tail = getattr(later, field.name)
            whole[:, begin:] = tail[:, begin - whole.shape[1] :]
            values[field.name] = whole
        return History(**values)

    @property
    def mean_s(self) -> Floats:
        """Mean latency; shape [units, steps]."""
        return self.usual_s + self.slow_share * self.slower_s


EDGE_FIELDS = frozenset(
    {
        "attempts",
        "arriving",
        "call_failing",
        "timing_out",
        "call_s",
        "pool_used",
        "per_request",
    }
)


class Physics:
    """Computes a stretch of time of one system under given levers."""

    def __init__(
        self, graph: Graph, entries: Floats, wander: Floats, levers: Levers, window: slice
    ) -> None:
        """`entries` [routes, steps] and `wander` [units, steps] (a factor on service times) cover
        the whole world; only `window` of it is computed."""
        self._graph = graph
        self._levers = levers
        self._window = window
        self._entries = entries[:, window] * _surges(graph, levers, window, entries)
        self._wander = wander[:, window]
        self.steps = self._entries.shape[1]
        self.now = History.blank(len(graph.units), len(graph.edges), self.steps)
        self._tries = np.ones((len(graph.edges), self.steps))
        self._queues_before = np.zeros(len(graph.units))
        self._base_calls = self._mix_of_routes()

    def run(self, before: History | None = None, begin: int = 0) -> History:
        """The history of the window; `before` gives the backlogs at its start."""
        if before is not None and begin > 0:
            self._queues_before = before.waiting[:, begin - 1]
        for _ in range(ROUNDS):
            self._go_down()
            self._come_up()
        self._go_down()
        return self.now

    def _mix_of_routes(self) -> Floats:
        """Calls per request along each edge, as the mix of routes has it; shape [edges, steps]."""
        visits = np.array([route.visits for route in self._graph.routes])
        calls = np.array([route.calls for route in self._graph.routes])
        of_units = visits.T @ self._entries
        of_edges = calls.T @ self._entries
        callers = [edge.caller for edge in self._graph.edges]
        return of_edges / np.maximum(of_units[callers], 1e-12)

    def _go_down(self) -> None:
        graph, now = self._graph, self.now
        now.rate[:] = 0.0
        for number, route in enumerate(graph.routes):
            now.rate[route.front] += self._entries[number]
        for unit in range(len(graph.units)):
            calls = graph.calls_of[unit]
            if calls.start == calls.stop:
                continue
            span = range(calls.start, calls.stop)
            first = self._base_calls[calls]
            for lever in ("calls", "miss"):
                moved = self._levers.rows(lever, span, self._window, self.steps)
                if moved is not None:
                    first = first * moved
            now.per_request[calls] = first
            accepted = now.rate[unit] * (1 - now.refused[unit])
            now.attempts[calls] = accepted * first * self._tries[calls]
            unreached = self._levers.rows("unreached", span, self._window, self.steps)
            now.arriving[calls] = 1.0 if unreached is None else 1 - np.clip(unreached, 0, 1)
            for number in span:
                self._arrive(number)

    def _arrive(self, number: int) -> None:
        edge = self._graph.edges[number]
        now = self.now
        if edge.waits:
            now.rate[edge.callee] += now.attempts[number] * now.arriving[number]
            return
        # A worker takes what its replicas can do; the rest stays in the queue.
        offered = now.attempts[number]
        capacity = np.minimum(self._capacity(edge.callee), offered * 3 + 1)
        waiting = backlog(
            offered * STEP_S, capacity * STEP_S, float(self._queues_before[edge.caller])
        )
        before = np.concatenate(([self._queues_before[edge.caller]], waiting[:-1]))
        taken = np.maximum(offered - (waiting - before) / STEP_S, 0.0)
        now.waiting[edge.caller] = waiting
        now.attempts[number] = taken
        now.rate[edge.callee] += taken

    def _capacity(self, unit: int) -> Floats:
        """Requests per second that a worker can finish; shape [steps]."""
        value = self._graph.units[unit]
        by_cpu = 0.9 * self._servers(unit) / self._service_s(unit)
        # While it waits for a database, a worker holds one of its threads and no CPU.
        threads = value.threads * np.maximum(self.now.pods[unit], len(value.pods))
        latency_s = np.maximum(self.now.usual_s[unit], self._service_s(unit))
        return np.asarray(np.minimum(by_cpu, threads / latency_s))

    def _servers(self, unit: int) -> Floats:
        value = self._graph.units[unit]
        pods = np.maximum(self.now.pods[unit], len(value.pods))
        moved = self._levers.get("capacity", unit, self._window)
        servers = pods * value.slots
        return np.asarray(servers if moved is None else np.maximum(servers * moved, 0.002))

    def _service_s(self, unit: int) -> Floats:
        value = self._graph.units[unit]
        service = value.self_s * self._wander[unit]
        moved = self._levers.get("work", unit, self._window)
        if moved is not None:
            service = service * moved
        heavier = self._query_cost(unit)
        return np.asarray(service if heavier is None else service * heavier)

    def _query_cost(self, unit: int) -> Floats | None:
        """Mean cost of a call relative to a usual one, weighted by who calls."""
        total = np.zeros(self.steps)
        weighted = np.zeros(self.steps)
        has_costs = False
        for number in self._graph.callers_of[unit]:
            cost = self._levers.get("cost", number, self._window)
            has_costs = has_costs or cost is not None
            total += self.now.attempts[number]
            weighted += self.now.attempts[number] * (1.0 if cost is None else cost)
        return weighted / np.maximum(total, 1e-9) if has_costs else None

    def _come_up(self) -> None:
        for unit in range(len(self._graph.units) - 1, -1, -1):
            self._scale(unit)
            self._serve(unit)

    def _scale(self, unit: int) -> None:
        value = self._graph.units[unit]
        least = len(value.pods)
        self.now.pods[unit] = least
        if not value.autoscaled:
            return
        needed = self.now.rate[unit] * self._service_s(unit) / (value.slots * SCALE_ON)
        padded = np.concatenate((np.full(SCALE_DELAY + SCALE_WINDOW - 1, needed[0]), needed))
        windows = np.lib.stride_tricks.sliding_window_view(padded, SCALE_WINDOW)
        largest = windows.max(axis=1)[: self.steps]
        self.now.pods[unit] = np.clip(np.ceil(largest), least, value.most_pods)

    def _serve(self, unit: int) -> None:
        value, now = self._graph.units[unit], self.now
        service = self._service_s(unit)
        servers = self._servers(unit)
        load = now.rate[unit] * service / servers
        wait = np.minimum(mean_wait(load, service, servers), value.longest_wait_s)
        refusing = np.maximum(0.0, 1.0 - 1.0 / np.maximum(load, 1.0))
        usual = service + wait
        variance = (service * value.spread) ** 2 + wait**2
        stalled = self._levers.get("stall_s", unit, self._window)
        if stalled is not None:
            usual = usual + stalled
            variance = variance + (0.6 * stalled) ** 2
        slow, lost, failing = self._trouble(unit)
        calls = self._graph.calls_of[unit]
        log_not_slow = np.log1p(-np.minimum(slow, 0.999999))
        fine = np.log1p(-np.minimum(failing, 0.999999))
        if calls.start < calls.stop:
            below = self._call(unit, calls)
            usual = usual + below.usual_s
            variance = variance + below.variance
            lost = lost + below.lost_s
            log_not_slow = log_not_slow + below.log_not_slow
            fine = fine + below.log_fine
        slow_share = -np.expm1(log_not_slow)
        now.slow_share[unit] = slow_share
        now.slower_s[unit] = lost / np.maximum(slow_share, 1e-9)
        now.used[unit] = np.minimum(load, 1.0)
        refusing = np.maximum(refusing, self._run_out_of_threads(unit, usual + lost))
        usual = usual + np.clip((now.concurrency[unit] - 0.85) / 0.15, 0, 1) * 0.5 * usual
        now.usual_s[unit] = usual
        now.variance[unit] = variance
        now.refused[unit] = 0.5 * now.refused[unit] + 0.5 * np.minimum(refusing, 0.98)
        now.failing[unit] = 1 - np.exp(fine) * (1 - now.refused[unit])

    def _run_out_of_threads(self, unit: int, latency_s: Floats) -> Floats:
        """Share refused because all threads wait; sets the share of threads held."""
        value, now = self._graph.units[unit], self.now
        threads = now.pods[unit] * value.threads
        concurrency = now.rate[unit] * (1 - now.refused[unit]) * latency_s / threads
        now.concurrency[unit] = concurrency
        return np.asarray(np.maximum(0.0, 1.0 - 1.0 / np.maximum(concurrency, 1.0)))

    def _trouble(self, unit: int) -> tuple[Floats, Floats, Floats]:
        """(slow share, seconds lost per request, failing share) of the unit itself."""
        slow = np.zeros(self.steps)
        lost = np.zeros(self.steps)
        failing = np.full(self.steps, self._graph.units[unit].failing)
        moved = self._levers.get("failing", unit, self._window)
        if moved is not None:
            failing = failing + moved
        for part in self._levers.parts.get(unit, []):
            share = part.share[self._window]
            slower = part.slower_s[self._window]
            slow = slow + np.where(slower > 0, share, 0.0)
            lost = lost + share * slower
            failing = failing + share * part.failing[self._window]
        return np.clip(slow, 0, 1), lost, np.clip(failing, 0, 1)

    def _call(self, unit: int, calls: slice) -> _Below:
        """What the calls of a unit cost it; all inner arrays have shape [calls, steps]."""
        graph, now, levers = self._graph, self.now, self._levers
        span = range(calls.start, calls.stop)
        edges = graph.edges[calls]
        callees = [edge.callee for edge in edges]
        usual, variance = now.usual_s[callees], now.variance[callees]
        slow, lost = now.slow_share[callees], now.slow_share[callees] * now.slower_s[callees]
        delay = levers.rows("delay_s", span, self._window, self.steps)
        if delay is not None:
            usual = usual + delay
            variance = variance + (0.3 * delay) ** 2
        dropped = levers.rows("lost", span, self._window, self.steps)
        if dropped is not None:
            seconds = levers.rows("lost_s", span, self._window, self.steps)
            assert seconds is not None
            slow = 1 - (1 - slow) * (1 - dropped)
            lost = lost + dropped * seconds
        limit = np.array([[min(edge.deadline_s, 3600.0)] for edge in edges])
        shorter = levers.rows("deadline", span, self._window, self.steps)
        limit = np.broadcast_to(limit, usual.shape) if shorter is None else limit * shorter
        late, usual_wait, slow_wait = _cut_by(limit, usual, variance, slow, lost)
        pool_wait, pool_failing = self._pools(calls, now.attempts[calls], usual_wait, slow_wait)
        failing = 1 - (1 - now.failing[callees]) * (1 - late) * (1 - pool_failing)
        failing = 1 - (1 - failing) * now.arriving[calls]
        tries = np.array([[float(edge.attempts)] for edge in edges])
        more = levers.rows("attempts", span, self._window, self.steps)
        if more is not None:
            tries = tries * more
        remaining = failing**tries
        self._tries[calls] = (1 - remaining) / np.maximum(1 - failing, 1e-9)
        self._tries[calls] = np.where(failing > 0.999999, tries, self._tries[calls])
        now.timing_out[calls] = late
        now.call_failing[calls] = failing
        reached = now.arriving[calls]
        now.call_s[calls] = (usual_wait + slow_wait + pool_wait) * reached
        now.call_s[calls] += FAIL_FAST_S * (1 - reached)
        waits = np.array([[1.0 if edge.waits else 0.0] for edge in edges])
        absorbs = np.array([[edge.absorbs] for edge in edges])
        count = now.per_request[calls] * waits
        call_tries = count * self._tries[calls]
        return _Below(
            usual_s=(
                call_tries * ((usual_wait + pool_wait) * reached + FAIL_FAST_S * (1 - reached))
            ).sum(axis=0),
            variance=(call_tries * np.minimum(variance, limit**2) * reached).sum(axis=0),
            lost_s=(call_tries * slow_wait * reached).sum(axis=0),
            log_not_slow=(call_tries * reached * np.log1p(-np.minimum(slow, 0.999999))).sum(axis=0),
            log_fine=(count * np.log1p(-np.minimum(remaining * (1 - absorbs), 0.999999))).sum(
                axis=0
            ),
        )

    def _pools(
        self, calls: slice, attempts: Floats, usual_wait: Floats, slow_wait: Floats
    ) -> tuple[Floats, Floats]:
        """(seconds of waiting for a connection, share that gets none), shape [calls, steps]."""
        edges = self._graph.edges[calls]
        sizes = np.array([[float(edge.pool) or 1e9] for edge in edges])
        span = range(calls.start, calls.stop)
        moved = self._levers.rows("pool", span, self._window, self.steps)
        if moved is not None:
            sizes = np.maximum(sizes * moved, 0.005)
        hold_s = usual_wait + slow_wait
        used = attempts * hold_s / sizes
        self.now.pool_used[calls] = used
        # Waiting is bounded by what pools allow by default: seconds, not the deadline of the call.
        wait = np.minimum(hold_s * np.clip(used - 0.7, 0, 20) * 2, 3.0)
        return wait, np.maximum(0.0, 1.0 - 1.0 / np.maximum(used, 1.0))


@dataclass(frozen=True)
class _Below:
    """What calls add to a unit's own latency and failures; shape [steps] each."""

    usual_s: Floats
    variance: Floats
    lost_s: Floats
    log_not_slow: Floats
    log_fine: Floats


def _cut_by(
    limit: Floats, usual: Floats, variance: Floats, slow: Floats, lost: Floats
) -> tuple[Floats, Floats, Floats]:
    """(share of time-outs, mean wait of usual calls, mean extra wait of slow ones per call)."""
    mu, sigma = lognormal(usual, variance)
    late, usual_wait = np.zeros_like(usual), usual.copy()
    # Most deadlines are far away at most times: what lies beyond 4.5 sigmas is not computed.
    near = (mu - np.log(limit)) / sigma + sigma > -4.5
    if near.any():
        late[near] = beyond(mu[near], sigma[near], limit[near])
        usual_wait[near] = cut_mean(usual[near], mu[near], sigma[near], limit[near])
    if not slow.any():
        return late, usual_wait, np.zeros_like(usual)
    mean = usual + lost / np.maximum(slow, 1e-9)
    slow_mu, slow_sigma = lognormal(mean, variance + (SLOW_SPREAD * (mean - usual)) ** 2)
    slow_late = beyond(slow_mu, slow_sigma, limit)
    slow_wait = slow * np.maximum(cut_mean(mean, slow_mu, slow_sigma, limit) - usual_wait, 0.0)
    return (1 - slow) * late + slow * slow_late, usual_wait, slow_wait


def _surges(graph: Graph, levers: Levers, window: slice, entries: Floats) -> Floats:
    steps = entries[:, window].shape[1]
    factors = np.ones((len(graph.routes), steps))
    for number in range(len(graph.routes)):
        moved = levers.get("load", number, window)
        if moved is not None:
            factors[number] = moved
    return factors
