"""How much of a service's lost time and failures is its own, and how much it passes on.

What its callees lose is taken off, times the calls that one of its requests makes. A caller fails
as well where what it calls is slow enough to time out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.victims import LoadChange, load_change, together

REQUEST_WORDS = re.compile(r"(?i)req|rps|hits|rate|count|invoc")
"""Of the signals of traffic, those that count requests."""
THROUGHPUT = "throughput"
"""In the names of those that count what a store or a consumer handles."""
MOVED = 0.1
"""A move that agrees less than this with the alert is none."""
LEAST_CALLS, MOST_CALLS = 0.5, 3.0
"""Calls per request that are believed where requests of both are known."""
TIMES_OUT = 0.7
"""The share of a caller's failures that a callee explains which is several times slower."""
MUCH_SLOWER = 3.0
UNLIKE = 0.5
"""What is lost in a signal that the alerting service does not have counts half."""


SIZED = frozenset({SignalClass.LATENCY, SignalClass.TRAFFIC}) | FAILING
"""Classes whose levels are compared between services."""


@dataclass(frozen=True)
class Move:
    """The level of a signal before and while the alert is bad; `sure` in [0, 1] says how far it
    is out of its noise at the alert's times."""

    before: float
    now: float
    sure: float

    @property
    def size(self) -> float:
        """How much it rose; 0 where that is not clear."""
        return max(0.0, self.now - self.before) if self.sure > MOVED else 0.0


@dataclass
class Moves:
    """By service and signal."""

    latency: dict[str, dict[str, Move]] = field(default_factory=lambda: defaultdict(dict))
    failures: dict[str, dict[str, Move]] = field(default_factory=lambda: defaultdict(dict))
    requests: dict[str, LoadChange] = field(default_factory=dict)
    """Of what serves requests."""
    throughput: dict[str, LoadChange] = field(default_factory=dict)
    """Of stores and consumers: statements, commands, messages."""


def moves_of(levels: Iterable[tuple[Deviation, Move]]) -> Moves:
    """Levels of every service, over its instances."""
    grouped: dict[tuple[str, str, SignalClass], list[Move]] = defaultdict(list)
    traffic = []
    for deviation, move in levels:
        if deviation.signal_class is SignalClass.TRAFFIC:
            traffic.append((deviation, move))
        else:
            grouped[deviation.service, deviation.signal, deviation.signal_class].append(move)
    moves = _loads_of(traffic)
    for (service, signal, kind), parts in grouped.items():
        # The clearest instance decides how sure it is: a mean would hide it among calm ones.
        sure = max(part.sure for part in parts)
        mean = Move(
            float(np.mean([part.before for part in parts])),
            float(np.mean([part.now for part in parts])),
            sure,
        )
        if kind is SignalClass.LATENCY:
            moves.latency[service][signal] = mean
        elif kind in FAILING:
            moves.failures[service][signal] = mean
    return moves


def _loads_of(traffic: Iterable[tuple[Deviation, Move]]) -> Moves:
    """Of each service the signal that changes most clearly."""
    loads: dict[tuple[str, str], list[LoadChange]] = defaultdict(list)
    for deviation, move in traffic:
        if REQUEST_WORDS.search(deviation.signal) or THROUGHPUT in deviation.signal:
            change = load_change(deviation, move.now)
            if change is not None:
                loads[deviation.service, deviation.signal].append(change)
    moves = Moves()
    for (service, signal), changes in loads.items():
        of_kind = moves.throughput if THROUGHPUT in signal else moves.requests
        load, clearest = together(changes), of_kind.get(service)
        if clearest is None or load.clearness > clearest.clearness:
            of_kind[service] = load
    return moves


class SelfLoss(NamedTuple):
    """What a service loses by itself; both times how sure the move is, in [0, 1]."""

    share: float
    """Of what it loses."""
    of_alert: float
    """As a share of what the alerting service loses."""


@dataclass(frozen=True)
class Accounts:
    """Who loses how much by itself."""

    moves: Moves
    graph: Topology
    unseen: Mapping[tuple[str, str], float]
    """For a callee without signals, the share of its caller's trouble that is on calls to it, in
    [0, 1]."""
    alerting: str | None

    def self_latency(self, service: str) -> SelfLoss:
        """What of its lost time nothing that it calls explains."""
        return self._self_loss(service, self.moves.latency, self._lost_below)

    def self_failures(self, service: str) -> SelfLoss:
        """What of its failing requests nothing that it calls explains."""
        return self._self_loss(service, self.moves.failures, self._failed_below)

    def _self_loss(
        self,
        service: str,
        moves: Mapping[str, Mapping[str, Move]],
        below: Callable[[str, str, float], float],
    ) -> SelfLoss:
        """The clearest of its signals; `below` says what its callees explain of a move."""
        clearest = SelfLoss(0.0, 0.0)
        of_alert = moves.get(self.alerting or "", {})
        for signal, move in moves.get(service, {}).items():
            if move.size <= 0:
                continue
            # Callees may lose more together than the caller does, since calls run in parallel.
            remainder = max(0.0, move.size - below(service, signal, move.size))
            share = remainder / move.size
            # The alert may be about a signal that this service does not have.
            share_of_alert = UNLIKE * share
            if signal in of_alert and of_alert[signal].size > 0:
                share_of_alert = min(1.0, remainder / of_alert[signal].size)
            if move.sure * share > clearest.share:
                clearest = SelfLoss(move.sure * share, move.sure * share_of_alert)
        return clearest

    def _lost_below(self, service: str, signal: str, size: float) -> float:
        """What its callees lose of this signal, in the signal's unit."""
        lost = 0.0
        for callee in self.graph.callees(service):
            callee_move = self.moves.latency.get(callee, {}).get(signal)
            if callee_move is not None:
                lost += self._calls(service, callee) * callee_move.size
            else:
                lost += size * self.unseen.get((service, callee), 0.0)
        return lost

    def _failed_below(self, service: str, signal: str, size: float) -> float:
        """What the callee that explains most explains of its failures."""
        explained = 0.0
        for callee in self.graph.callees(service):
            callee_move = self.moves.failures.get(callee, {}).get(signal)
            part = size * self.unseen.get((service, callee), 0.0)
            if callee_move is not None:
                part = self._calls(service, callee) * callee_move.size
            part = max(part, TIMES_OUT * size * self._slower(callee))
            explained = max(explained, part)
        return explained

    def _slower(self, service: str) -> float:
        """In [0, 1]: 1 where it takes several times as long as before."""
        scores = [0.0]
        for move in self.moves.latency.get(service, {}).values():
            if move.size > 0 and move.before > 0:
                scores.append(move.sure * min(1.0, move.size / move.before / MUCH_SLOWER))
        return max(scores)

    def _calls(self, caller: str, callee: str) -> float:
        """Calls per request of the caller; 1 where requests of both are not known."""
        above, below = self.moves.requests.get(caller), self.moves.requests.get(callee)
        if above is None or below is None or above.before <= 0:
            return 1.0
        # All its callers share its requests, and how they share them is not known.
        callers = max(1, len(self.graph.callers(callee)))
        return min(MOST_CALLS, max(LEAST_CALLS, below.before / above.before / callers))


LEAST_CARRIED = 0.05
LATENCY_SHARE = 0.02
"""Of the alerting service's requests: fewer slow ones than this hardly show in a percentile."""


@dataclass(frozen=True)
class Traffic:
    """Requests that services serve, by signal and service, the more of before and now: one that is
    down gets few."""

    requests: Mapping[str, Mapping[str, float]]

    def share(self, service: str, of_service: str) -> float | None:
        """Requests of a service beside those of another, by counters of the same kind; None where
        both have none."""
        for by_service in self.requests.values():
            whole = by_service.get(of_service, 0.0)
            if service in by_service and whole > 0:
                return by_service[service] / whole
        return None


def traffic_of(levels: Iterable[tuple[Deviation, float]]) -> Traffic:
    """Of series with their level while the alert is bad, summed over instances."""
    requests: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for deviation, now in levels:
        if deviation.signal_class is SignalClass.TRAFFIC and REQUEST_WORDS.search(deviation.signal):
            requests[deviation.signal][deviation.service] += max(deviation.before, now)
    return Traffic(requests)


def carried_share(
    deviation: Deviation, now: float, alert: Deviation, alert_now: float, traffic: Traffic
) -> float:
    """How much of the alert a series of a service can account for at its level `now`, in
    [LEAST_CARRIED, 1]: a callee with seven requests that all fail cannot fail 1 % of 680. 1 where
    that is unknown."""
    is_failing = deviation.signal_class in FAILING
    is_serving = is_failing or deviation.signal_class is SignalClass.LATENCY
    if not is_serving or deviation.service == alert.service:
        return 1.0
    requests = traffic.share(deviation.service, alert.service)
    if requests is None:
        return 1.0
    rise = alert_now - alert.before
    if is_failing and deviation.signal == alert.signal:
        if rise <= 0:
            return 1.0
        carried = max(0.0, now - deviation.before) * requests / rise
    else:
        carried = requests / LATENCY_SHARE
    return min(1.0, max(LEAST_CARRIED, carried))


def carried_shares(
    series: Sequence[Deviation],
    levels: Mapping[int, float],
    beside: Collection[int],
    alert: Deviation | None,
) -> dict[int, float]:
    """By series (`id`), how much of the alert it can account for at its level of `levels`."""
    if alert is None or id(alert) not in levels:
        return {}
    sized = [(deviation, levels[id(deviation)]) for deviation in series if id(deviation) in levels]
    traffic = traffic_of((each, level) for each, level in sized if id(each) not in beside)
    alert_now = levels[id(alert)]
    shares = {}
    for deviation, level in sized:
        shares[id(deviation)] = carried_share(deviation, level, alert, alert_now, traffic)
    return shares
