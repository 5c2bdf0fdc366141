"""Findings about what sends nothing itself: a service that only its callers see, and a place.

Neither need have any signal itself. A provider outside, a database that nobody watches or a host
name with an expired certificate shows in its callers' metrics and lines; a node in what runs there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import (
    CallPatternDetails,
    CallsIntoDetails,
    PlaceDetails,
)
from faultline.analysis.kinds.finding_kinds import CALLS_INTO, FAN_OUT, PLACE_CONTRAST
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.suspects.accounting import THROUGHPUT
from faultline.analysis.suspects.deviations import NOT_SERVING, Deviation
from faultline.analysis.suspects.features import SOLE_COMPLAINER
from faultline.analysis.suspects.observed import Observed, level_while_bad, sole_complaints
from faultline.analysis.suspects.places import DIFFERENT, Place
from faultline.analysis.suspects.victims import LoadChange, load_change
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import levels, unit_of
from faultline.analysis.wording.names import signal_name
from faultline.analysis.wording.phrases import counted, number, plain, rounded

LEAST_STRENGTH = 0.1
"""A weaker sign is one that quiet windows show as well."""
MAX_NAMED = 3
LIST_LIMIT = 4
LEAST_MORE = 2.0
"""Calls per request at least doubled, as in `requests.call_patterns`."""
USUAL_TRIES = 2.0
"""How many more calls the default tries of clients make where some of the calls fail: AWS' SDKs and
gRPC's policies try a failed one three to five times."""
COMPARED = frozenset({SignalClass.LATENCY, SignalClass.ERRORS})
"""What both sides of a call measure."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def calls_into(case: Case, observation: Observed) -> list[Finding]:
    """One finding per service whose callers measure more trouble with it, or name it in more
    failing lines, than before."""
    by_callee: dict[str, list[tuple[Deviation, float]]] = defaultdict(list)
    for callee, deviation, weight in observation.calls:
        if deviation.signal_class not in NOT_SERVING and weight > 0:
            by_callee[callee].append((deviation, weight))
    lines: dict[str, list[tuple[Deviation, float, int]]] = defaultdict(list)
    for line, weight in observation.lines:
        if line.names is not None and weight > 0:
            lines[line.names].append((line.course, weight, line.lines))
    findings = []
    blamed = sole_complaints(observation)
    for callee in sorted({*by_callee, *lines}):
        share = SOLE_COMPLAINER if callee in blamed else 1.0
        measured = [(deviation, share * weight) for deviation, weight in by_callee[callee]]
        finding = _calls_into(case, observation, callee, measured, lines[callee])
        if finding is not None:
            findings.append(finding)
    return findings


def _calls_into(
    case: Case,
    observation: Observed,
    callee: str,
    measured: Sequence[tuple[Deviation, float]],
    lines: Sequence[tuple[Deviation, float, int]],
) -> Finding | None:
    courses = [(course, weight) for course, weight, _ in lines]
    # The worst first, whoever saw it: it names the series that the finding shows.
    every = sorted([*measured, *courses], key=lambda pair: (-pair[1], pair[0].service))
    worst, strength = every[0]
    if strength < LEAST_STRENGTH:
        return None
    named = sum(count for _, _, count in lines)
    callers = tuple(dict.fromkeys(deviation.service for deviation, _ in every))
    evidence = case.evidence_ids("metrics") if measured else ()
    if lines:
        evidence += case.evidence_ids("logs")
    who = " and ".join(plain(caller) for caller in callers[:2])
    if len(callers) > 2:
        who = f"{plain(callers[0])} and {counted(len(callers) - 1, 'other service')}"
    phrase = f"Calls from {who} to {plain(callee)} fail or wait more than before"
    numbers: dict[str, float] = {}
    details = CallsIntoDetails(callers=callers[:MAX_NAMED], lines=named, bad=True)
    compared = [pair for pair in measured if pair[0].signal_class in COMPARED]
    if compared:
        loudest_call = max(compared, key=lambda pair: pair[1])[0]
        numbers, text, details = _measured(case, observation, callee, loudest_call, details)
        phrase += text
    if named:
        phrase += f"; {counted(named, 'failing line')} of theirs name it"
        numbers["lines"] = float(named)
    if len(callers) > 2:
        numbers["others"] = float(len(callers) - 1)
    return Finding(
        id="",
        kind=CALLS_INTO.name,
        subject=callee,
        signal="logs" if not measured else worst.signal,
        onset=onset_of(worst),
        onset_uncertainty_s=step_s(worst),
        strength=round(min(1.0, strength), 4),
        sentence=f"{phrase}.",
        numbers=numbers,
        evidence=evidence,
        series=_series(worst, callee, measured=bool(measured)),
        details=details,
    )


def _measured(
    case: Case,
    observation: Observed,
    callee: str,
    deviation: Deviation,
    details: CallsIntoDetails,
) -> tuple[dict[str, float], str, CallsIntoDetails]:
    """What a caller measures of its calls, before and while they are bad: numbers, text and
    details."""
    rows = case.metrics.filter(
        pl.col("service") == deviation.service, pl.col("signal") == deviation.signal
    )
    unit = next(iter(rows["unit"].drop_nulls()), None)
    badness = deviation.badness[-deviation.searched :]
    # Half of the worst, because a mean over the calm part of the window would dilute the level.
    now = float(np.median(deviation.window_values[badness >= np.max(badness) / 2]))
    pair = rounded(deviation.before), rounded(now)
    before_text, now_text = levels(*pair, unit_of(deviation.signal, unit, pair))
    text = f": {signal_name(deviation.signal)} rose from {before_text} to {now_text}"
    alike = [
        series
        for series, _ in observation.service_series
        if series.service == callee and series.signal_class is deviation.signal_class
    ]
    is_calm = bool(alike) and all(series.size <= 0 for series in alike)
    if is_calm:
        text += f", while {plain(callee)} itself measures nothing unusual"
    update = {
        "signal_class": deviation.signal_class.value,
        "unit": unit,
        "is_calm_itself": is_calm,
    }
    numbers = {"calls_before": pair[0], "calls": pair[1]}
    return numbers, text, details.model_copy(update=update)


def _series(worst: Deviation, callee: str, *, measured: bool) -> dict[str, str]:
    if not measured:
        return {"table": "logs", "service": worst.service}
    return {"table": "metrics", "service": worst.service, "signal": worst.signal}


def more_calls(case: Case, observation: Observed) -> list[Finding]:
    """One finding per caller that calls a service at least twice as often for each request that
    it gets, by its metrics, or by those of what it alone calls: calls in a loop, a lost cache, more
    tries, more messages."""
    failing = set()
    for callee, deviation, weight in observation.calls:
        if deviation.signal_class is SignalClass.ERRORS and weight > 0:
            failing.add((deviation.service, callee))
    findings = []
    for caller, callee, deviation, edge in _measured_calls(observation):
        requests = observation.moves.requests.get(caller)
        if requests is None or requests.now <= 0:
            continue
        before, now = edge.before / requests.before, edge.now / requests.now
        tries = USUAL_TRIES if (caller, callee) in failing else 1.0
        # Callers try again by themselves where calls fail: that many times is no doing of theirs.
        if edge.log - requests.log > math.log(LEAST_MORE * tries) and now > LEAST_MORE * before:
            findings.append(_more_calls(case, caller, callee, deviation, (before, now)))
    return findings


def _measured_calls(
    observation: Observed,
) -> Iterator[tuple[str, str, Deviation, LoadChange]]:
    """Caller, callee, the series that counts the calls, and how their number changed."""
    counted_calls = set()
    for callee, deviation, _ in observation.calls:
        if deviation.signal_class is SignalClass.TRAFFIC:
            counted_calls.add((deviation.service, callee))
            edge = load_change(deviation, level_while_bad(deviation, observation.curve))
            if edge is not None:
                yield deviation.service, callee, deviation, edge
    for deviation, _ in observation.service_series:
        callee = deviation.service
        edge = observation.moves.throughput.get(callee)
        callers = observation.graph.callers(callee)
        if edge is None or len(callers) != 1 or THROUGHPUT not in deviation.signal:
            continue
        # What one service alone calls handles what that one asks.
        [caller] = callers
        if (caller, callee) not in counted_calls and not deviation.labels:
            yield caller, callee, deviation, edge


def _more_calls(
    case: Case, caller: str, callee: str, deviation: Deviation, ratios: tuple[float, float]
) -> Finding:
    before, now = ratios
    numbers = {"calls": rounded(now, 3), "baseline_calls": rounded(before, 3)}
    calls, usual = number(numbers["calls"], 3), number(numbers["baseline_calls"], 3)
    return Finding(
        id="",
        kind=FAN_OUT.name,
        subject=caller,
        signal=deviation.signal,
        onset=onset_of(deviation),
        onset_uncertainty_s=step_s(deviation),
        strength=round(1.0 - before / now, 4),
        sentence=(
            f"{plain(caller)} makes {calls} calls to {plain(callee)} for each of its "
            f"requests, {usual} in the baseline."
        ),
        numbers=numbers,
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": callee},
        details=CallPatternDetails(caller=caller, bad=True),
    )


def place_contrasts(case: Case, observation: Observed) -> list[Finding]:
    """One finding per place in which several services are worse than elsewhere."""
    places = []
    for place in observation.places:
        # One worse service may have its own trouble: a second one makes it the place's.
        if place.second > DIFFERENT and place.name not in observation.services:
            places.append(_place(case, place))
    return places


def _place(case: Case, place: Place) -> Finding:
    worse, services = len(place.services), place.service_count
    names = ", ".join(plain(name) for name in place.services[:LIST_LIMIT])
    sentence = (
        f"On {place.kind} {plain(place.name)}, {worse} of {counted(services, 'service')} that run "
        f"there and elsewhere are worse there ({names})."
    )
    return Finding(
        id="",
        kind=PLACE_CONTRAST.name,
        subject=place.name,
        strength=round(min(1.0, place.share), 4),
        sentence=sentence,
        numbers={"worse": float(worse), "services": float(services)},
        evidence=case.evidence_ids("metrics"),
        details=PlaceDetails(
            place_kind=place.kind, services=place.services[:20], services_there=services, bad=True
        ),
    )


def onset_of(deviation: Deviation) -> datetime | None:
    """When a series left its own noise: the first point of the window that is half as far out as
    its worst. None where none is out."""
    badness = deviation.badness[-deviation.searched :]
    worst = float(np.max(badness))
    if worst <= 0:
        return None
    # Half of the worst, because a rise begins within the noise.
    first = int(np.argmax(badness >= worst / 2))
    return _EPOCH + timedelta(microseconds=int(deviation.window_times[first]) // 1000)


def step_s(deviation: Deviation) -> float | None:
    """How far its points are apart, in seconds."""
    if len(deviation.times) < 2:
        return None
    return rounded(float(np.median(np.diff(deviation.times))) / 1e9, 3)
