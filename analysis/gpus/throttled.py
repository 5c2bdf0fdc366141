"""GPUs that a limit held back for part of the time, by DCGM's cumulative violation counters.

A clock that is sampled once a minute shows only what lasts; these counters hold what happened
between two samples too. The share is how much a counter rose over how long it was watched. Being
held back by the power limit is how a GPU under full load runs (DCGM issue 285), so that counts only
where the other GPUs are not, and where the GPU draws less than they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faultline.analysis.gpus.fleet import NS, Device, Fleet, Samples, Sign
from faultline.analysis.gpus.slowness import (
    FIXES,
    LESS_POWER,
    OLD,
    THROTTLED,
    busy_steps,
    median,
    models,
    peers_median,
    power_beside_peers,
)
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats
from faultline.analysis.wording.phrases import number, rounded

LEAST_SHARE = 0.10
"""Hardware slows a hot GPU to half its clock or less (dcgm_fields.h), so it then loses at least a
twentieth. DCGM's own watch warns at any rise, which healthy GPUs have too (DCGM issue 285)."""
TIMES_BEFORE = 2.0
"""An assumption: less than twice the share of the baseline is no news."""
MORE_AT_POWER_LIMIT = 0.25
"""An assumption: so much more of the time than the others, and than before. What decides is the
lower draw: GPUs with one limit draw the same when it holds them back."""
ONLY_BESIDE_PEERS = (gs.THROTTLED_BY_BOARD, gs.THROTTLED_BY_RELIABILITY)
"""An assumption: a fleet whose boards all hold it back under load runs as it was built, so these
count only beside GPUs that are not held back."""
LEAST_RISES = 3
"""A single jump may be another GPU's counter. Scraped once a minute, these are three minutes."""
BEGINS = 0.25
"""It began with the first rise that is at least this share of the largest."""
SOURCE = "DCGM violation counters (dcgm_fields.h)"


class Limit(NamedTuple):
    """What held a GPU back: in a reason's words, in a sentence, and which fix helps."""

    event: str
    words: str
    fix: str


LIMITS: Mapping[str, Limit] = {
    gs.THROTTLED_BY_HEAT: Limit("thermal", "heat", "thermal"),
    gs.THROTTLED_BY_BRAKE: Limit("power brake", "the power brake", "power brake"),
    gs.THROTTLED_BY_BOARD: Limit("board limit", "the limit of its board", "power brake"),
    gs.THROTTLED_BY_RELIABILITY: Limit(
        "reliability limit", "the reliability limit of its board", "hardware slowdown"
    ),
    gs.THROTTLED_BY_POWER: Limit("power cap", "its power limit", "power cap"),
}
"""By signal, the one that says most first."""


class Throttling(NamedTuple):
    """How long a GPU was held back: seconds, their share of the time watched (NaN where it was
    not), the number of rises, and when it began (ns)."""

    seconds: float
    share: float
    rises: int
    begins: int


def with_throttled(fleet: Fleet, slow: Sequence[Sign]) -> list[Sign]:
    """The signs of slow GPUs, and of those held back; a clock that is low for a known reason says
    more than a counter, and a counter more than heat or a low clock alone."""
    # A sign with events already says why the clock is low.
    explained = {sign.device for sign in slow if sign.events}
    signs: dict[Device, Sign] = {}
    for signal in LIMITS:
        for sign in _throttled_signs(fleet, signal):
            if sign.device not in explained:
                # The first limit says most, so later ones do not replace it.
                signs.setdefault(sign.device, sign)
    return [sign for sign in slow if sign.device not in signs] + list(signs.values())


def _throttled_signs(fleet: Fleet, signal: str) -> Iterator[Sign]:
    now = [_most_throttled(fleet, signal, gpu, [fleet.search_ns]) for gpu in fleet.gpus]
    before = [_most_throttled(fleet, signal, gpu, fleet.baseline_ns) for gpu in fleet.gpus]
    shares, earlier = (
        np.array([throttling.share for throttling in side]) for side in (now, before)
    )
    if signal == gs.THROTTLED_BY_POWER:
        counts = _at_a_lower_limit(fleet, shares, np.nan_to_num(earlier))
    else:
        counts = shares >= LEAST_SHARE
        if signal in ONLY_BESIDE_PEERS:
            counts &= shares >= _of_peers(fleet, shares) + LEAST_SHARE
    for row, gpu in enumerate(fleet.gpus):
        if counts[row] and now[row].rises >= LEAST_RISES:
            yield _sign(fleet, gpu, signal, now[row], earlier[row])


def _most_throttled(
    fleet: Fleet, signal: str, gpu: Device, spans: Iterable[tuple[int, int]]
) -> Throttling:
    """Of the sources that count the same GPU, what the one with the largest share says."""
    throttlings = [_throttling(part, spans) for part in fleet.of(signal).get(gpu, ())]
    return max(
        throttlings,
        key=lambda throttling: np.nan_to_num(throttling.share),
        default=Throttling(0.0, np.nan, 0, 0),
    )


def _throttling(part: Samples, spans: Iterable[tuple[int, int]]) -> Throttling:
    """A fall is a counter that began again: what it shows then may be from any time, so it does not
    count."""
    seconds = watched = 0.0
    rises = begins = 0
    for start, end in spans:
        inside = part.between(start, end)
        steps = np.maximum(np.diff(inside.values), 0.0)
        if not len(steps):
            continue
        seconds += float(steps.sum())
        watched += float(inside.times[-1] - inside.times[0]) / NS
        rises += int(np.count_nonzero(steps))
        # The first window in which it rose decides.
        begins = begins or int(inside.times[1:][steps >= BEGINS * steps.max()][0])
    share = min(1.0, seconds / watched) if watched else np.nan
    return Throttling(min(seconds, watched), share, rises, begins)


def _at_a_lower_limit(fleet: Fleet, shares: Floats, before: Floats) -> Bools:
    """Which GPUs their power limit holds back more than the others and than before, while they draw
    less."""
    power = fleet.grid.gauge(gs.POWER)
    busy = busy_steps(fleet.grid, power) if power is not None else None
    if busy is None:
        return np.zeros(len(shares), dtype=bool)
    peers = _of_peers(fleet, shares)
    beside = np.where(busy & fleet.grid.search, power_beside_peers(fleet, busy), np.nan)
    more = (shares >= peers + MORE_AT_POWER_LIMIT) & (shares >= before + MORE_AT_POWER_LIMIT)
    return np.asarray(more & (median(beside, axis=1) <= LESS_POWER))


def _of_peers(fleet: Fleet, shares: Floats) -> Floats:
    """The median share of the other GPUs of the same model; NaN where there is none."""
    column = shares[:, None]
    return peers_median(column, np.isfinite(column), models(fleet))[:, 0]


def _sign(fleet: Fleet, gpu: Device, signal: str, now: Throttling, before: float) -> Sign:
    limit, percent = LIMITS[signal], float(round(100 * now.share))
    says = f"was held back by {limit.words} for {number(percent)} % of the time"
    numbers = {"share_percent": percent, "increase": rounded(now.seconds)}
    if np.isfinite(before):
        numbers["before_percent"] = float(round(100 * before))
        says += f", and for {number(numbers['before_percent'])} % before"
    is_old = now.share < TIMES_BEFORE * np.nan_to_num(before)
    strength = 0.4 + now.share / 2
    return Sign(
        kind=THROTTLED,
        device=gpu,
        signal=signal,
        strength=min(0.9, strength) * (OLD if is_old else 1.0),
        says=says,
        # Apart from clocks that are low for the same reason: they are worded otherwise.
        reason=f"{limit.event} counter{' old' if is_old else ''}",
        fix=FIXES[limit.fix],
        source=SOURCE,
        onset_ns=None if is_old else now.begins,
        uncertainty_s=fleet.grid.step_ns / NS,
        numbers=numbers,
        events=(limit.event,),
        minutes=round(now.seconds / 60, 1),
    )
