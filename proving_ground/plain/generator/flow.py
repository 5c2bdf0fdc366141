"""What flows through a system: rates go down its calls, latencies and failures come up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proving_ground.plain.generator.system import Call, Pod, Service, System, generator_for

Floats = NDArray[np.float64]
DAY_S = 86_400.0
SIGMA = 0.55
"""Of the logarithm of a latency: a p99 of 3.6 medians, as services of one kind of request have."""
POOL = 10
"""Connections of one pod to a database: HikariCP's default."""
ROUNDS = 5
"""Retries raise rates, which raise latencies, which raise retries."""
FACTORS = {"self_ms", "capacity", "cpu", "per_request", "timeout", "traffic", "hit_ratio"}
"""Levers that multiply; others add."""
HIT_RATIO = 0.92
LARGEST = 0.97
STARTING_S = 25.0
"""From a container's death to its next ready answer."""


@dataclass(frozen=True)
class Clock:
    """Times of samples in seconds, up to 0, the last."""

    seconds: Floats
    step_s: int

    @classmethod
    def of(cls, step_s: int, hours: float, days: int) -> Clock:
        """That many hours, and three of them on each of the days before."""
        recent = np.arange(-round(hours * 3600 / step_s), 1) * float(step_s)
        pieces = [recent[recent >= -3 * 3600] - DAY_S * day for day in range(days, 0, -1)]
        return cls(np.concatenate([*pieces, recent]), step_s)

    @property
    def elapsed(self) -> Floats:
        """Seconds since the sample before; shape [steps]."""
        return np.diff(self.seconds, prepend=self.seconds[0] - self.step_s)


@dataclass
class Flow:
    """Everything that is computed; arrays have the shape [steps], by pod or by call."""

    system: System
    clock: Clock
    levers: dict[tuple[str, str], Floats] = field(default_factory=dict)
    rate: dict[str, Floats] = field(default_factory=dict)
    """Requests per second that reach a service."""
    share: dict[str, Floats] = field(default_factory=dict)
    """Of its service's requests, by pod."""
    alive: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    latency: dict[str, Floats] = field(default_factory=dict)
    """Mean in ms, by pod."""
    failed: dict[str, Floats] = field(default_factory=dict)
    """Share, by pod."""
    self_failed: dict[str, Floats] = field(default_factory=dict)
    used: dict[str, Floats] = field(default_factory=dict)
    """Share of its capacity, by pod."""
    calls_rate: dict[str, Floats] = field(default_factory=dict)
    calls_ms: dict[str, Floats] = field(default_factory=dict)
    calls_failed: dict[str, Floats] = field(default_factory=dict)
    """Attempts per second, mean ms and share of failures, as the caller sees them, by call."""
    calls_late: dict[str, Floats] = field(default_factory=dict)
    """Share that its time-out ended."""
    pool_demand: dict[str, Floats] = field(default_factory=dict)
    """Of a pod's connections, by call: above 1 requests wait for one."""
    lag: dict[str, Floats] = field(default_factory=dict)
    """Messages that wait in a queue."""
    base_rate: dict[str, float] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    """Names of batch jobs, by the role that they play if they run."""

    def lever(self, name: str, target: str) -> Floats:
        """What an incident does to a target, over time; neutral where it does nothing."""
        neutral = 1.0 if name in FACTORS else 0.0
        return self.levers.get((name, target), np.full(self.clock.seconds.size, neutral))

    def bend(self, name: str, target: str, amount: float, shape: Floats) -> None:
        """Move a lever: to that factor, or by that amount, where the shape is 1."""
        lever = self.lever(name, target)
        if name in FACTORS:
            self.levers[name, target] = lever * np.exp(np.log(amount) * shape)
        else:
            self.levers[name, target] = lever + amount * shape

    def noise(self, size: float, *topic: str) -> Floats:
        """A factor around 1: it wanders over half an hour, and jumps from sample to sample."""
        rng = generator_for(self.system.seed, "noise", *topic)
        seconds = self.clock.seconds
        knots = np.arange(seconds[0], 1801.0, 1800.0)
        slow = np.interp(seconds, knots, rng.normal(0, size, knots.size))
        return np.exp(slow + rng.normal(0, size, seconds.size))

    def day_curve(self) -> Floats:
        """Traffic of the time of day, around 1."""
        phase = 2 * np.pi * self.clock.seconds / DAY_S + self.system.swing_phase
        return 1 + self.system.swing * np.sin(phase)

    def settle(self) -> None:
        """Compute everything from the levers."""
        for service in self.system.services.values():
            self.settle_pods(service)
        self.base_rate = self.rates_without_incident()
        for call in self.system.calls:
            self.calls_failed[edge(call)] = np.zeros(self.clock.seconds.size)
        attempts = {edge(call): np.ones(self.clock.seconds.size) for call in self.system.calls}
        for _ in range(ROUNDS):
            self.send_down(attempts)
            for service in reversed(list(self.system.ordered())):
                self.answer(service)
            for call in self.system.calls:
                retries = self.lever("retries", edge(call))
                failed = np.minimum(self.calls_failed[edge(call)], 0.995)
                expected = (1 - failed ** (retries + 1)) / (1 - failed)
                attempts[edge(call)] = (attempts[edge(call)] + expected) / 2

    def settle_pods(self, service: Service) -> None:
        """When each pod is there, and its share of the requests."""
        seconds = self.clock.seconds
        for pod in service.pods:
            alive = np.ones(seconds.size, dtype=bool)
            if pod.begin_s is not None:
                alive &= seconds >= pod.begin_s
            if pod.end_s is not None:
                alive &= seconds < pod.end_s
            self.alive[pod.name] = alive
        serving = np.array([self.serving(pod) for pod in service.pods])
        total = np.maximum(serving.sum(axis=0), 0.05)
        for number, pod in enumerate(service.pods):
            self.share[pod.name] = serving[number] / total

    def serving(self, pod: Pod) -> Floats:
        """How much of a pod's part it takes; a container that starts takes none."""
        serving = self.alive[pod.name].astype(float)
        step_s = self.clock.step_s
        for restart_s in pod.restarts_s:
            down = np.clip((self.clock.seconds - restart_s) / step_s, 0, 1)
            up = np.clip((self.clock.seconds - restart_s - STARTING_S) / step_s, 0, 1)
            serving *= 1 - 0.9 * (down - up)
        return serving

    def rates_without_incident(self) -> dict[str, float]:
        """Mean rate of each service on an average day."""
        rates = dict.fromkeys(self.system.services, 0.0)
        for service in self.system.ordered():
            if service.role == "front":
                rates[service.name] = self.system.front_rate
            elif service.role == "worker":
                (queue,) = self.system.of_role("queue")
                rates[service.name] = rates[queue.name]
            for call in self.system.calls_of(service.name):
                rates[call.callee] += rates[service.name] * self.per_request(call).min()
        return rates

    def per_request(self, call: Call) -> Floats:
        """Calls of a request; what a cache misses goes to the database."""
        calls = np.full(self.clock.seconds.size, call.per_request)
        callees = {other.callee for other in self.system.calls_of(call.caller)}
        for cache in self.system.of_role("cache"):
            is_beside = self.system.services[call.callee].role == "database"
            if cache.name in callees and is_beside:
                missed = 1 - HIT_RATIO * self.lever("hit_ratio", cache.name)
                calls = call.per_request * missed / (1 - HIT_RATIO)
        return calls

    def send_down(self, attempts: dict[str, Floats]) -> None:
        """The rates, from the front door on."""
        zeros = np.zeros(self.clock.seconds.size)
        self.rate = {name: zeros.copy() for name in self.system.services}
        for service in self.system.ordered():
            rate = self.rate[service.name]
            if service.role == "front":
                rate += self.system.front_rate * self.day_curve() * self.noise(0.03, "traffic")
                rate *= self.lever("traffic", service.name)
            elif service.role == "worker":
                rate += self.take(service)
            rate += self.base_rate[service.name] * self.lever("extra", service.name)
            for call in self.system.calls_of(service.name):
                calls = self.per_request(call) * self.lever("per_request", edge(call))
                self.calls_rate[edge(call)] = rate * calls * attempts[edge(call)]
                self.rate[call.callee] += self.calls_rate[edge(call)]

    def take(self, worker: Service) -> Floats:
        """What a worker takes from its queue; the rest waits there."""
        (queue,) = self.system.of_role("queue")
        arriving = self.rate[queue.name]
        pods = [self.lever("capacity", pod.name) * self.share[pod.name] for pod in worker.pods]
        most = 2.5 * self.base_rate[queue.name] * sum(pods, np.zeros(arriving.size))
        waiting = 0.0
        taken, lag = np.zeros(arriving.size), np.zeros(arriving.size)
        for step, elapsed in enumerate(np.minimum(self.clock.elapsed, 60.0).tolist()):
            taken[step] = min(most[step], arriving[step] + waiting / elapsed)
            waiting = max(0.0, waiting + (arriving[step] - taken[step]) * elapsed)
            lag[step] = waiting
        self.lag[queue.name] = lag
        return taken

    def answer(self, service: Service) -> None:
        """Latency and failures of a service's pods, from those of what it calls."""
        calls = self.system.calls_of(service.name)
        headroom = generator_for(self.system.seed, "headroom", service.name).uniform(1.8, 3.2)
        for call in calls:
            self.observe(call)
        for pod in service.pods:
            peak = self.base_rate[service.name] * (1 + self.system.swing) / service.replicas
            room = headroom * max(peak, 0.01) * self.lever("capacity", pod.name)
            if service.role == "worker":
                room *= 2.5
            # A broker takes whatever its producers send: it is its consumers that fall behind.
            elif service.role == "queue":
                room *= 20
            used = self.rate[service.name] * self.share[pod.name] / room
            busy = np.minimum(used, LARGEST)
            queueing = 1 + 0.6 * busy**4 / (1 - busy)
            latency = service.self_ms * self.lever("self_ms", pod.name) * queueing
            latency = latency * self.noise(0.03, "latency", pod.name)
            failed = self.lever("self_errors", pod.name) + np.maximum(
                0, 1 - 1 / np.maximum(used, 1)
            )
            failed = np.clip(failed + 0.0003 + 0 * busy, 0, 1)
            self.self_failed[pod.name] = failed
            passed = 1 - failed
            for call in calls:
                attempted = self.calls_rate[edge(call)] / np.maximum(self.rate[service.name], 1e-9)
                latency = latency + attempted * self.calls_ms[edge(call)]
                if call.required:
                    retries = self.lever("retries", edge(call))
                    lost = self.calls_failed[edge(call)] ** (retries + 1)
                    tries = np.minimum(1.0, self.per_request(call))
                    passed = passed * (1 - lost * tries)
            self.used[pod.name] = used
            self.latency[pod.name] = latency
            self.failed[pod.name] = 1 - passed

    def mean_over_pods(self, values: dict[str, Floats], service: Service) -> Floats:
        """Of a service, weighted by requests."""
        mean = np.zeros(self.clock.seconds.size)
        for pod in service.pods:
            mean += self.share[pod.name] * values[pod.name]
        return mean

    def observe(self, call: Call) -> None:
        """A call as its caller sees it: with the network, its pool and its time-out."""
        callee, name = self.system.services[call.callee], edge(call)
        latency = self.mean_over_pods(self.latency, callee) + self.lever("net_ms", name)
        failed = self.mean_over_pods(self.failed, callee)
        # Without a pod nothing answers.
        present = sum((self.share[pod.name] for pod in callee.pods), np.zeros(failed.size))
        failed = np.maximum(failed, 1 - np.clip(present, 0, 1))
        if callee.role == "database":
            pods = len(self.system.services[call.caller].pods)
            demand = self.calls_rate[name] / pods * latency / 1000 * 3
            room = np.maximum(POOL - self.lever("leaked", name), 0.3)
            used = demand / room
            self.pool_demand[name] = used
            busy = np.minimum(used, LARGEST)
            latency = latency * (1 + busy**4 / (1 - busy))
            failed = failed + np.maximum(0, 1 - 1 / np.maximum(used, 1))
        timeout_ms = 1000 * call.timeout_s * self.lever("timeout", name)
        late = 1 - normal_cdf(np.log(timeout_ms / median_of(latency)) / SIGMA)
        self.calls_late[name] = late
        self.calls_ms[name] = np.minimum(latency, timeout_ms)
        failed = 1 - (1 - np.clip(failed, 0, 1)) * (1 - late)
        self.calls_failed[name] = np.clip(failed + self.lever("call_errors", name), 0, 1)


def edge(call: Call) -> str:
    """The name of a call."""
    return f"{call.caller}>{call.callee}"


def median_of(mean: Floats) -> Floats:
    """Median of a latency with that mean."""
    median: Floats = np.maximum(mean, 1e-3) * np.exp(-(SIGMA**2) / 2)
    return median


def normal_cdf(values: Floats) -> Floats:
    """Of the standard normal distribution (Abramowitz and Stegun, 26.2.17; error below 1e-7)."""
    size = np.abs(values)
    t = 1 / (1 + 0.2316419 * size)
    series = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    upper = np.exp(-(size**2) / 2) / np.sqrt(2 * np.pi) * series
    shares: Floats = np.where(values >= 0, 1 - upper, upper)
    return shares
