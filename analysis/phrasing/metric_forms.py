"""Statements about metrics that moved."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

from faultline.analysis.kinds.finding_details import AlertHistoryDetails, MetricShiftDetails
from faultline.analysis.kinds.signals import SCRAPES, SignalClass, is_headroom
from faultline.analysis.phrasing.statement import (
    FAIL,
    FELL,
    IS,
    NOTHING,
    ROSE,
    Part,
    Phrase,
    Statement,
    Verb,
    Voice,
    clock,
    figure,
    name,
    say,
    spaced,
)
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import (
    LARGE_RATIO,
    NUMBER,
    PERCENT,
    SECONDS,
    Unit,
    amount,
    failing,
    levels,
    times,
    unit_of,
)
from faultline.analysis.wording.names import counted_name, signal_name
from faultline.analysis.wording.phrases import counted

USED_UP = 0.9
"""From this share on a resource is said to be used up: the level at which kube-prometheus' and
Datadog's recommended monitors warn."""
DOUBLED = 2.0
"""The least rise of a resource that is offered as an explanation. A service under a usual day's
peak doubles its use too; less tells nothing."""
MULTIPLE = 1.15
"""A smaller rise is said as a move."""
AGAIN = 2.0
"""From this many restarts on a service "keeps restarting"."""
DOWN = Verb("are down", "were down", "go down")
UNSCRAPED = Verb("cannot be scraped", "could not be scraped", "fail their scrapes")
KEEPS_RESTARTING = Verb("keeps restarting", "kept restarting", "keep restarting")
RESTARTED = Verb("restarted", "restarted", "restart")
STAYED = Verb("stayed", "stayed", "stay")
TRAINS = Verb("trains", "trained", "train")
STEP_TIME = "time per step"
WORTH_SAYING = 0.01
"""A smaller share of failing requests is left out where a few words have to do."""
LEVELS = ("baseline", "incident", "now", "low", "high", "threshold")
"""Numbers of a finding that are levels of its metric."""
MINUTE_S = 60
TOTAL = re.compile(r"_total$")
"""How Prometheus' counters are called, which are never set back."""
_SHARES_OF_ALL = frozenset({SignalClass.AVAILABILITY, SignalClass.HIT_RATIO})
"""Of these what is missing to 100 % is of interest, so that it keeps its digits."""
_COUNTED: Mapping[SignalClass, str] = {
    SignalClass.ERRORS: "errors",
    SignalClass.TRAFFIC: "requests",
}
HANDFUL = 5
NEAR = 0.95
"""A share from which on its decimals say nothing."""
LITTLE_USED = 0.5
"""What is used to less than this share is not short."""
NEVER = 0.05
"""Percent that is said as "none"."""
_RESOURCES: Mapping[SignalClass, str] = {
    SignalClass.CPU: "out of CPU",
    SignalClass.MEMORY: "out of memory",
    SignalClass.DISK: "out of disk space",
}


def shifted(finding: Finding, voice: Voice) -> Statement | None:
    """Of any metric that moved, whether or not it is a fault."""
    if _metric_name(finding) == STEP_TIME:
        return step_time(finding, voice)
    ratio = _ratio(finding)
    is_traffic = finding.details.signal_class == SignalClass.TRAFFIC.value
    # Traffic is said as a multiple even where it has not doubled.
    many = ratio is not None and (is_traffic or ratio >= DOUBLED)
    return multiplied(finding, voice) if many else moved(finding, voice)


def moved(finding: Finding, voice: Voice) -> Statement | None:
    if not is_shift(finding):
        return None
    before, after, _ = both_levels(finding)
    rose = finding.details.direction != "down"
    signal = say("{whose} {signal}", whose=voice.whose, signal=signal_text(finding))
    # A move below every digit that is shown is none to a reader.
    if before.text == after.text:
        return Statement(signal, STAYED, say("at {after}", after=after))
    return Statement(
        signal,
        ROSE if rose else FELL,
        say("from {before} to {after}", before=before, after=after),
    )


def multiplied(finding: Finding, voice: Voice) -> Statement | None:
    """A rise that is best said as a multiple."""
    ratio = _ratio(finding)
    if not is_shift(finding) or ratio is None or not MULTIPLE <= ratio <= LARGE_RATIO:
        return moved(finding, voice)
    before, after, _ = both_levels(finding)
    return Statement(
        say("{whose} {signal}", whose=voice.whose, signal=signal_text(finding)),
        ROSE,
        say(
            "{times} ({before} → {after})",
            times=figure(finding, "ratio", times(ratio)),
            before=before,
            after=after,
        ),
        Phrase((figure(finding, "ratio", times(ratio)),)),
    )


def slow(finding: Finding, voice: Voice) -> Statement | None:
    """Of a latency, or of the time that a job's steps take."""
    called = _metric_name(finding)
    if called == STEP_TIME:
        return step_time(finding, voice)
    ratio = _ratio(finding)
    if "latency" not in called or not is_shift(finding) or ratio is None or ratio < MULTIPLE:
        return multiplied(finding, voice)
    before, after, _ = both_levels(finding)
    statistic = called.removesuffix(" seen by callers").removesuffix("latency").strip()
    slower = say(
        "{times} slower ({statistic}{before} → {after})",
        times=figure(finding, "ratio", times(ratio)),
        statistic=f"{statistic} " if statistic else "",
        before=before,
        after=after,
    )
    short = say("{times} slower", times=figure(finding, "ratio", times(ratio)))
    return Statement(say("{who}", who=voice.who), IS, slower, short)


def fails(finding: Finding, voice: Voice) -> Statement | None:
    """Of a share of failing requests."""
    called = _metric_name(finding)
    generic = called == "error rate" or called.startswith("rate of ")
    if not is_shift(finding) or not generic or finding_unit(finding).kind != "share":
        return multiplied(finding, voice)
    before, _, unit = both_levels(finding)
    after = figure(finding, "incident", failing(100 * finding.numbers["incident"] * unit.factor))
    usual = say("({before} before)", before=before)
    if 100 * finding.numbers["baseline"] * unit.factor < NEVER:
        usual = NOTHING
    verb = FAIL
    # A request that gets this status did not have to fail.
    if called != "error rate":
        answers = called.removeprefix("rate of ")
        verb = Verb(f"get {answers}", f"got {answers}", f"get {answers}")
    who = say("{after} of {whose} requests", after=after, whose=voice.whose)
    return Statement(who, verb, usual, NOTHING)


def unavailable(finding: Finding, voice: Voice) -> Statement | None:
    """Availability, said by what it lacks."""
    if not is_shift(finding) or finding_unit(finding).kind != "share":
        return moved(finding, voice)
    factor = finding_unit(finding).factor
    lacking = 100 * (1 - finding.numbers["incident"] * factor)
    before = 100 * (1 - finding.numbers["baseline"] * factor)
    if lacking <= 0:
        return moved(finding, voice)
    down = figure(finding, "incident", amount(lacking, PERCENT))
    if finding.signal == SCRAPES:
        targets = say("{down} of {whose} targets", down=down, whose=voice.whose)
        return Statement(targets, UNSCRAPED)
    if _counts_instances(finding):
        return Statement(say("{down} of {whose} instances", down=down, whose=voice.whose), DOWN)
    share = figure(finding, "incident", failing(lacking))
    usual = say("({before} before)", before=amount(before, PERCENT))
    return Statement(
        say("{share} of requests to {who}", share=share, who=voice.who),
        FAIL,
        usual if before >= NEVER else NOTHING,
        NOTHING,
    )


def _counts_instances(finding: Finding) -> bool:
    """Whether it is an availability of instances, as of an exporter's `pg_up`: a ratio without a
    word for requests."""
    details = MetricShiftDetails.of(finding)
    is_ratio = details is not None and details.unit == "ratio"
    is_available = finding.details.signal_class == SignalClass.AVAILABILITY.value
    return is_ratio and is_available and "success" not in (finding.signal or "").casefold()


def resource(finding: Finding, voice: Voice) -> Statement | None:
    if not is_shift(finding):
        return None
    before, after, _ = both_levels(finding)
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    if not (used_up(finding) and kind in _RESOURCES):
        return multiplied(finding, voice)
    out = say("{out} ({before} → {after})", out=_RESOURCES[kind], before=before, after=after)
    short = say("{out}", out=_RESOURCES[kind])
    return Statement(say("{who}", who=voice.who), Verb("is", "was", "run"), out, short)


def restarts(finding: Finding, voice: Voice) -> Statement | None:
    """Of processes or containers that ended and were started again."""
    if not is_shift(finding) or finding.details.direction == "down":
        return None
    who = say("{who}", who=voice.who)
    before, after, _ = both_levels(finding)
    figures = NOTHING
    if finding.numbers["baseline"] > 0:
        # The values are means over the samples: of a rise from none they say nothing.
        figures = say("(restarts {before} → {after})", before=before, after=after)
    if "oom" in (finding.signal or "").lower():
        out = say("out of memory")
        return Statement(who, Verb("runs", "ran", "run"), spaced(out, figures), out)
    again = finding.numbers["incident"] - finding.numbers["baseline"] >= AGAIN
    verb = KEEPS_RESTARTING if again else RESTARTED
    return Statement(who, verb, figures, NOTHING)


def counted_restarts(finding: Finding, since: datetime) -> Phrase | None:
    """How often it restarted at least, of a count that began at nothing: no mean of a count is
    above its highest value."""
    is_count = is_shift(finding) and finding_unit(finding) == NUMBER
    if not is_count or finding.numbers["baseline"] > 0 or finding.numbers["incident"] <= 0:
        return None
    least = math.ceil(finding.numbers["incident"])
    return say(
        "{who} restarted at least {times} since {time} UTC, not once before",
        who=name(finding.subject),
        times=figure(finding, "incident", "once" if least == 1 else counted(least, "time")),
        time=clock(since),
    )


def step_time(finding: Finding, voice: Voice) -> Statement | None:
    """Of a training job whose steps take longer."""
    ratio = _ratio(finding)
    if not is_shift(finding) or ratio is None or ratio < MULTIPLE:
        return moved(finding, voice)
    before, after, _ = both_levels(finding)
    times_slower = figure(finding, "ratio", times(ratio))
    slower = say(
        "{times} slower ({before} → {after} per step)",
        times=times_slower,
        before=before,
        after=after,
    )
    who = say("{who}", who=voice.who)
    return Statement(who, TRAINS, slower, say("{times} slower", times=times_slower))


def _metric_name(finding: Finding) -> str:
    return signal_name(finding.signal or "")


def signal_text(finding: Finding) -> str:
    """The metric's name; a count in an interval is no rate."""
    called = _metric_name(finding)
    # "refunds' refunds backlog": a metric's name often begins with its service's.
    called = called.removeprefix(f"{finding.subject.replace('-', ' ')} ") or called
    return counted_name(called) if finding_unit(finding) == NUMBER else called


def failing_share(finding: Finding) -> float | None:
    """The share of requests that fail, from 0 to 1, where the metric tells it."""
    unit = finding_unit(finding)
    if not is_shift(finding) or unit.kind != "share" or finding.signal == SCRAPES:
        return None
    share = finding.numbers["incident"] * unit.factor
    return 1 - share if _metric_name(finding) == "availability" else share


def in_brackets(finding: Finding) -> str:
    """The effect on a service in two or three words: "1.6x slower", "15 % of requests fail"."""
    if not is_shift(finding):
        return ""
    called = _metric_name(finding)
    ratio = _ratio(finding)
    multiple = times(ratio) if ratio is not None and ratio >= MULTIPLE else None
    if "latency" in called and multiple is not None:
        return f"{multiple} slower"
    if finding.details.signal_class == SignalClass.QUEUE.value:
        before, after, _ = both_levels(finding)
        return f"backlog {before.text} → {after.text}"
    share = failing_share(finding)
    if share is not None:
        of_requests = called in ("error rate", "availability") and not _counts_instances(finding)
        fails = of_requests and share >= WORTH_SAYING
        return f"{failing(100 * share)} of requests fail" if fails else ""
    is_up = finding.details.direction != "down"
    if finding.details.signal_class == SignalClass.ERRORS.value and is_up:
        many = multiple is not None and not counts_few(finding)
        return f"{multiple} its usual errors" if many else ""
    return ""


def grew_much(finding: Finding) -> bool:
    """Whether a resource is nearly used up, or its use has at least doubled and is not little."""
    if not is_shift(finding):
        return True
    unit = finding_unit(finding)
    level = finding.numbers["incident"] * unit.factor
    if unit.kind == "share" and not is_headroom(finding.signal or ""):
        if level >= USED_UP:
            return True
        if level < LITTLE_USED:
            return False
    holds = finding.details.signal_class == SignalClass.CONNECTIONS.value
    if holds and unit == NUMBER and level < HANDFUL:
        return False
    ratio = _ratio(finding)
    return ratio is None or ratio >= DOUBLED


def counts_few(finding: Finding) -> bool:
    """Whether it counts a handful of errors, which prove nothing."""
    is_count = is_shift(finding) and finding_unit(finding) == NUMBER
    is_error = finding.details.signal_class == SignalClass.ERRORS.value
    return is_count and is_error and finding.numbers["incident"] < HANDFUL


def used_up(finding: Finding) -> bool:
    """Whether a resource with a known limit is nearly used up."""
    unit = finding_unit(finding)
    is_share = is_shift(finding) and unit.kind == "share" and not is_headroom(finding.signal or "")
    return is_share and finding.numbers["incident"] * unit.factor >= USED_UP


def both_levels(finding: Finding) -> tuple[Part, Part, Unit]:
    """Both levels of a metric that moved; the second says what they count, and per what."""
    before, after = finding.numbers["baseline"], finding.numbers["incident"]
    unit = finding_unit(finding)
    usual, now = levels(before, after, unit)
    ending = _ending(finding, unit)
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    # Close to the whole, rounding would turn "nearly all" into "all".
    if unit.kind == "share" and kind not in _SHARES_OF_ALL and NEAR < after * unit.factor <= 1:
        now = failing(100 * after * unit.factor)
    if ending and unit.kind == "rate":
        usual, now = usual.removesuffix("/s"), now.removesuffix("/s")
    now = f"{now}{ending}"
    return figure(finding, "baseline", usual), figure(finding, "incident", now), unit


def level_before(finding: Finding) -> str:
    """The level before, with what a rate counts."""
    usual, _, unit = both_levels(finding)
    ending = _ending(finding, unit)
    return f"{usual.text}{ending}" if unit.kind == "rate" else usual.text


def _ending(finding: Finding, unit: Unit) -> str:
    """What a rate is of, and what a bare count is counted over."""
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    noun = _COUNTED.get(kind, "")
    if unit.kind == "rate":
        # The name of any other signal says itself what it is a rate of.
        return f" {noun}/s" if noun and _metric_name(finding).endswith("rate") else ""
    if unit != NUMBER or not noun:
        return ""
    # Whoever counts in an interval counts whole ones, and the middle of two may be a half. What is
    # no such number is a share or a rate, of which nobody said so.
    if any(2 * finding.numbers[name] % 1 for name in ("baseline", "incident")):
        return ""
    if TOTAL.search(finding.signal or ""):
        # A counter's own level: what it has counted so far.
        return " in total"
    details = MetricShiftDetails.of(finding)
    seconds = details.interval_s if details is not None else None
    if seconds is None:
        # Nobody knows how long a sample is; beside the level before, the count says enough.
        return ""
    return " per minute" if round(seconds) == MINUTE_S else f" per {amount(seconds, SECONDS)}"


def finding_unit(finding: Finding) -> Unit:
    details = MetricShiftDetails.of(finding) or AlertHistoryDetails.of(finding)
    numbers = [finding.numbers[name] for name in LEVELS if name in finding.numbers]
    return unit_of(finding.signal or "", details.unit if details else None, numbers)


def is_shift(finding: Finding) -> bool:
    return {"baseline", "incident"} <= finding.numbers.keys()


def _ratio(finding: Finding) -> float | None:
    return finding.numbers.get("ratio")
