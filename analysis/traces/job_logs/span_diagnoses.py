"""What spans of a structured log say: who stands still and where, and who waits for input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.doctor.rule import percent, short
from faultline.analysis.traces.flight_recorder.wording import Numbers, bounded, subject_of
from faultline.analysis.traces.job_logs.structured_log import (
    STEP,
    OpenSpan,
    RankSpans,
    usual_step_ms,
)
from faultline.analysis.traces.judgement.thresholds import (
    INPUT_FIX,
    LATE_INPUT_FIX,
    PERSISTENT,
    WARN_SHARE,
    severity_of,
)
from faultline.analysis.traces.readable import readable

LEAST_STEPS = 3
"""Of which shares are taken (own)."""
STANDS_STILL_STEPS, STANDS_STILL_S = 10, 300.0
"""A job has stopped when nothing began or ended for this many usual steps, and for this long: logs
that are copied to shared storage every few minutes look silent, too. The figures are
assumptions."""
SOURCE = "TorchTitan's structured log; "


def span_diagnoses(
    ranks: Sequence[RankSpans], *, stopped: bool, named: bool, until_us: int | None
) -> list[JobDiagnosis]:
    """Who stands still, then who waits for input.

    `stopped`: other files say that the job hangs. `named`: they say who is to blame, which spans
    only bear out. `until_us`: the moment up to which the files were collected, in us since 1970;
    None where that is not recorded.
    """
    last = max((rank.last_us for rank in ranks), default=0)
    quiet = (until_us - last) / 1e6 if until_us is not None else 0.0
    still = quiet >= max(STANDS_STILL_S, STANDS_STILL_STEPS * usual_step_ms(ranks) / 1e3)
    severity: Severity = "critical" if (stopped or still) and not named else "info"
    standing = _standing(ranks, severity, quiet if still else None)
    late = _late_input(ranks)
    # A late rank makes the others wait: do not blame the loaders of all for it.
    waiting = _straggler(late) if late else _input_bound(ranks)
    return [diagnosis for diagnosis in (standing, waiting) if diagnosis is not None]


def _standing(
    ranks: Sequence[RankSpans], severity: Severity, quiet_s: float | None
) -> JobDiagnosis | None:
    """The ranks that stand elsewhere than most; where all stand in one place, that place."""
    if len(ranks) < 2 or not any(rank.open for rank in ranks):
        return None
    usual = _usual_place(ranks)
    behind: list[RankSpans] = []
    other_ranks: list[RankSpans] = []
    for rank in ranks:
        if _place(rank) == usual:
            other_ranks.append(rank)
        else:
            behind.append(rank)
    if not behind:
        return _all_stand(ranks, quiet_s) if severity == "critical" else None
    # With more than half elsewhere it is not clear who is behind.
    if 2 * len(behind) > len(ranks):
        return None
    ranks_behind, numbers = tuple(rank_spans.rank for rank_spans in behind), Numbers()
    span = behind[0].place
    who = numbers.ranks(ranks_behind)
    rest = numbers.count("waiting", len(other_ranks), "other rank")
    here, there = _where(span, numbers, ""), _where(other_ranks[0].place, numbers, "their_")
    if severity == "critical":
        stands, waits = _verb("stand", behind), _verb("wait", other_ranks)
        statement = f"{who} {stands} {here}, while {rest} {waits} {there}"
        statement += _for_how_long(numbers, quiet_s)
    else:
        verb = "is" if len(behind) == 1 else "are"
        statement = f"when the logs end {who} {verb} {here}, {rest} {there}"
    return JobDiagnosis(
        rule="stuck_rank",
        severity=severity,
        subject=subject_of(ranks_behind),
        statement=statement,
        fix=f"See what holds {numbers.ranks(ranks_behind[:1])} there: its stack (py-spy dump), "
        f"its host and what it "
        "reads; the others wait for it in a collective.",
        source=SOURCE + "at most half of the ranks stand elsewhere than the rest (own)",
        numbers=numbers,
        ranks=ranks_behind,
        steps=(span.step,) if span.step is not None else (),
        details=_details(ranks) | {"at": _time(span.start_us)},
    )


def _verb(verb: str, subjects: Sized) -> str:
    return f"{verb}s" if len(subjects) == 1 else verb


def _all_stand(standing: Sequence[RankSpans], quiet_s: float | None) -> JobDiagnosis:
    numbers, span = Numbers(), standing[0].place
    return JobDiagnosis(
        rule="all_ranks_stuck",
        severity="critical",
        subject=subject_of(()),
        statement=f"all {numbers.count('ranks', len(standing), 'rank')} stand "
        f"{_where(span, numbers, '')}" + _for_how_long(numbers, quiet_s),
        fix="Flight recorder dumps and stacks of all ranks say which collective it is and who is "
        "missing in it.",
        source=SOURCE + "no rank stands elsewhere",
        numbers=numbers,
        steps=(span.step,) if span.step is not None else (),
        details=_details(standing)
        | {"at": _time(max(rank_span.place.start_us for rank_span in standing))},
    )


def _usual_place(ranks: Sequence[RankSpans]) -> tuple[int, str]:
    """Where most ranks stand; of places with as many, the one that is further on: a later step,
    else begun later."""
    counts = Counter(_place(rank) for rank in ranks)
    began = {_place(rank): rank.place.start_us for rank in ranks}
    return max(counts, key=lambda place: (counts[place], place[0], began[place], place[1]))


def _place(rank_spans: RankSpans) -> tuple[int, str]:
    return (
        rank_spans.place.step if rank_spans.place.step is not None else -1,
        rank_spans.place.name,
    )


def _where(span: OpenSpan, numbers: Numbers, prefix: str) -> str:
    """ "in fwd_bwd of step 41"; a step in which no phase is open is "between the phases of step
    41"."""
    step = numbers.say(f"{prefix}step", span.step) if span.step is not None else "unknown number"
    if not span.name:
        return f"outside of all spans, after step {step}"
    place = "between the phases" if span.name == STEP else f"in {readable(span.name, 60)}"
    return f"{place} of step {step}"


def _for_how_long(numbers: Numbers, quiet_s: float | None) -> str:
    if quiet_s is None:
        return ""
    return f"; nothing has moved for {numbers.say('quiet_s', round(quiet_s))} s"


def _details(standing: Sequence[RankSpans]) -> dict[str, object]:
    places = {}
    for rank_spans in standing[:64]:
        spans = [readable(span.name, 60) for span in rank_spans.open[:8]]
        places[str(rank_spans.rank)] = {"in": spans, "since": _time(rank_spans.place.start_us)}
    return {"stands_in": places}


def _time(us: int) -> str:
    # A hostile log may give a year that datetime does not know.
    if us >= 4e15:
        return "?"
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class _LateInput:
    """Ranks that wait longer for their batches than the others."""

    ranks: tuple[int, ...]
    rank_ms: float
    other_ms: float
    step_ms: float
    steps: int

    @property
    def share(self) -> float:
        return (self.rank_ms - self.other_ms) / self.step_ms


def _late_input(ranks: Sequence[RankSpans]) -> _LateInput | None:
    """Judged by medians over the steps that all ranks timed: one long step makes no straggler."""
    steps = _common_steps(ranks)
    if len(ranks) < 2 or len(steps) < LEAST_STEPS:
        return None
    usual = {step: median(rank.data_ms.get(step, 0.0) for rank in ranks) for step in steps}
    length = median(rank.step_ms[step] for rank in ranks for step in steps)
    if length <= 0:
        return None
    late = _late_ranks(ranks, usual, WARN_SHARE * length)
    # Of more than two ranks only a minority can be late; of two, either can.
    if not late or 2 * len(late) >= len(ranks) > 2:
        return None
    worst = max(late, key=lambda pair: (pair[0], -pair[1].rank))[1]
    rank_ms = median(worst.data_ms.get(step, 0.0) for step in steps)
    other_ms = median(usual.values())
    if len(ranks) == 2:
        # The median of two ranks lies between them: the other one is as far on its other side.
        other_ms = 2 * other_ms - rank_ms
    late_ranks = tuple(sorted(rank_spans.rank for _, rank_spans in late))
    return _LateInput(late_ranks, rank_ms, max(other_ms, 0.0), length, len(steps))


def _late_ranks(
    ranks: Sequence[RankSpans], usual: Mapping[int, float], least_ms: float
) -> list[tuple[float, RankSpans]]:
    """Ranks that wait that much longer than usual in many steps, each with its median."""
    late = []
    for rank in ranks:
        over = [rank.data_ms.get(step, 0.0) - usual_ms for step, usual_ms in usual.items()]
        late_steps = [ms for ms in over if ms >= least_ms]
        if median(over) >= least_ms and len(late_steps) >= PERSISTENT * len(usual):
            late.append((median(over), rank))
    return late


def _common_steps(ranks: Sequence[RankSpans]) -> list[int]:
    """Steps that every rank timed, without the first, in which loaders and compilers start."""
    if not ranks or not any(rank.data_ms for rank in ranks):
        return []
    common = set.intersection(*(set(rank.step_ms) for rank in ranks))
    return sorted(common)[1:]


def _straggler(late: _LateInput) -> JobDiagnosis:
    numbers = Numbers()
    who, verb = numbers.ranks(late.ranks), _verb("wait", late.ranks)
    rank_ms = numbers.say("own_ms", short(late.rank_ms))
    step_ms = numbers.say("step_ms", short(late.step_ms))
    other_ms = numbers.say("other_ms", short(late.other_ms))
    steps = numbers.say("steps", late.steps)
    statement = (
        f"{who} {verb} {rank_ms} ms of a step of {step_ms} ms for the next batch, the others "
        f"{other_ms} ms, in {steps} steps"
    )
    return JobDiagnosis(
        rule="straggler",
        severity=severity_of(late.share, late.steps),
        subject=subject_of(late.ranks),
        statement=statement,
        fix=LATE_INPUT_FIX,
        source=SOURCE + "TraceML's thresholds (10 % warns, 20 % is critical from 20 steps on)",
        numbers=numbers,
        ranks=late.ranks,
        details={
            "blame_share": round(late.share, 4),
            "cause": "input",
            "phase": "data loading",
            "late_ranks": bounded(late.ranks),
        },
    )


def _input_bound(ranks: Sequence[RankSpans]) -> JobDiagnosis | None:
    steps = _common_steps(ranks)
    if len(steps) < LEAST_STEPS:
        return None
    shares = []
    for rank in ranks:
        for step in steps:
            if rank.step_ms[step] > 0:
                shares.append(rank.data_ms.get(step, 0.0) / rank.step_ms[step])
    share = median(shares) if shares else 0.0
    if share < WARN_SHARE:
        return None
    numbers = Numbers()
    return JobDiagnosis(
        rule="dataloader_stall",
        severity="warning",
        subject=subject_of(()),
        statement=f"{numbers.say('percent', percent(share))} % of the step is waiting for the "
        f"next batch, in "
        f"{numbers.count('steps', len(steps), 'step')} of "
        f"{numbers.count('ranks', len(ranks), 'rank')}",
        fix=INPUT_FIX,
        source=SOURCE + "TraceML's INPUT_BOUND (10 %); on the host's clock, so that it only warns",
        numbers=numbers,
        details={"data_share": round(share, 4)},
    )
