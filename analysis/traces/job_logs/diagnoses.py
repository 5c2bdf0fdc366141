"""What metrics and logs say is wrong, as diagnoses."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.flight_recorder.wording import Numbers, bounded, subject_of
from faultline.analysis.traces.job_logs.metrics import RankMetrics
from faultline.analysis.traces.job_logs.rank_logs import JobLogs, LoggedException, LoggedFailure
from faultline.analysis.traces.job_logs.signatures import XID, XIDS, Signature, match
from faultline.analysis.traces.job_logs.training_health import (
    LossSpike,
    first_not_a_number,
    full_memory,
    input_bound,
    loss_spikes,
    slowdown,
)
from faultline.analysis.traces.judgement.thresholds import (
    INPUT_FIX,
    PRESSURE_FIX,
    WARN_SHARE,
    pressure,
)
from faultline.analysis.traces.readable import readable

SYMPTOMS = ("timeout", "network")
"""Kinds of failures that follow from another rank's: they accuse nobody."""
QUIET_EXCEPTIONS = ("KeyboardInterrupt", "SystemExit", "ChildFailedError", "SignalException")
"""Raised by people and launchers, not by what went wrong."""
MAX_EXCERPT = 160
FAILURES = {
    "ecc_error": ("ecc_error",),
    "ib_error": ("ib_error", "ib_link_down"),
    "disk_full": ("disk_full", "inodes_exhausted", "disk_quota"),
}
"""Rule -> the signatures that it reports, the first that is there."""
GPU_MEMORY = ("cuda_out_of_memory",)
HOST_MEMORY = (
    "host_out_of_memory",
    "container_out_of_memory",
    "heap_out_of_memory",
    "cannot_allocate",
)
ACTION_WEIGHT = 0.5
"""Weight of an Xid for which NVIDIA asks for something at once; one below is a warning."""
CLEAR_WEIGHT = 0.7
"""Another signature of a GPU, a host or the scheduler with at least this weight is reported as
`known_failure` (an assumption)."""


def metrics_diagnoses(ranks: Sequence[RankMetrics]) -> list[JobDiagnosis]:
    """NaN or Inf, loss spikes, a lasting loss of speed; waiting for input and full memory, where
    the job logs them."""
    candidates = [
        _nan(ranks),
        _spike(ranks, loss_spikes(ranks)),
        _slowdown(ranks),
        _input(ranks),
        _full(ranks),
    ]
    return [diagnosis for diagnosis in candidates if diagnosis is not None]


def _nan(ranks: Sequence[RankMetrics]) -> JobDiagnosis | None:
    bad = first_not_a_number(ranks)
    if bad is None:
        return None
    numbers = Numbers()
    what = "loss" if bad.measure == "loss" else "gradient norm"
    value = "NaN" if math.isnan(bad.value) else "infinite"
    who = f" of {numbers.ranks(bad.ranks)}" if bad.ranks else ""
    step = numbers.say("step", bad.step)
    when = f"from step {step} on" if bad.lasting else f"at step {step}"
    statement = f"the {what}{who} is {value} {when}"
    if bad.ranks and bad.later:
        later = len(bad.later)
        verb = "follows" if later == 1 else "follow"
        statement += f", before {numbers.count('later', later, 'other rank')} {verb}"
    noticed = {
        "measure": bad.measure,
        "last_good": bad.last_good,
        "later_ranks": bounded(bad.later),
    }
    return JobDiagnosis(
        rule="nan_loss",
        severity="critical" if bad.lasting else "warning",
        subject=subject_of(bad.ranks),
        statement=statement,
        fix=_nan_fix(bad.ranks),
        source="first rank and step with a value that is no number in the job's metrics",
        numbers=numbers,
        ranks=bad.ranks,
        steps=(bad.step,),
        details=noticed | _moment(ranks, bad.step),
    )


def _nan_fix(ranks: Sequence[int]) -> str:
    if not ranks:
        return (
            "Check the learning rate, loss scaling and the batch at that step; "
            "torch.autograd.set_detect_anomaly."
        )
    # All-reduced gradients spread one rank's NaN to all others.
    those, its = ("that rank", "its") if len(ranks) == 1 else ("those ranks", "their")
    return (
        f"Look at the input of {those} at that step; the others only took over {its} gradients. "
        "Skip or clip such batches."
    )


def _moment(ranks: Sequence[RankMetrics], step: int) -> dict[str, Any]:
    """When a step was, and how long after the one before it; nothing where the job wrote no
    times."""
    timed = [rank for rank in ranks if step in rank.times]
    if not timed:
        return {}
    first = min(timed, key=lambda rank_metrics: rank_metrics.times[step])
    at = first.times[step]
    # Clocks may step back: only earlier times bound the moment.
    earlier = [time for other, time in first.times.items() if other < step and time <= at]
    before = max(earlier, default=at)
    return {
        "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
        "at_within_s": round(at - before, 3),
    }


def _spike(ranks: Sequence[RankMetrics], spikes: Sequence[LossSpike]) -> JobDiagnosis | None:
    if not spikes:
        return None
    first = min(spikes, key=lambda spike: spike.step)
    numbers = Numbers()
    value, step = numbers.say("loss", round(first.value, 4)), numbers.say("step", first.step)
    times = numbers.say("times", round(first.value / first.before, 1))
    end = "and comes back" if first.recovered else "and does not come back"
    statement = (
        f"the loss jumps to {value} at step {step}, {times} times that of the steps before, {end}"
    )
    shown_by = bounded(spike.rank for spike in spikes if spike.rank is not None)
    return JobDiagnosis(
        rule="loss_spike",
        severity="info" if first.recovered else "warning",
        subject=subject_of(()),
        statement=statement,
        fix="Compare the batch and the gradient norm at that step; restart from the checkpoint "
        "before it, or skip it.",
        source="twice the median of 20 steps and 10 robust deviations (own)",
        numbers=numbers,
        steps=(first.step,),
        details={"ranks_that_show_it": shown_by} | _moment(ranks, first.step),
    )


def _slowdown(ranks: Sequence[RankMetrics]) -> JobDiagnosis | None:
    speed_loss = slowdown(ranks)
    if speed_loss is None:
        return None
    numbers = Numbers()
    lost = numbers.say("lost_percent", round(100 * speed_loss.lost, 1))
    return JobDiagnosis(
        rule="throughput_drop",
        severity="warning",
        subject=subject_of(()),
        statement=f"the job runs {lost} % slower from step {numbers.say('step', speed_loss.step)} "
        "to the end",
        fix="Capture a profile now and compare it with one from before; look at what changed at "
        "that time.",
        source="20 % of speed (own); one change point in the logarithm of the step time",
        numbers=numbers,
        steps=(speed_loss.step,),
        details={
            "before_ms": round(speed_loss.before_ms, 4),
            "after_ms": round(speed_loss.after_ms, 4),
            "ranks_that_show_it": speed_loss.ranks,
        }
        | _moment(ranks, speed_loss.step),
    )


def _input(ranks: Sequence[RankMetrics]) -> JobDiagnosis | None:
    stall = input_bound(ranks)
    if stall is None:
        return None
    share, steps = stall
    numbers = Numbers()
    return JobDiagnosis(
        rule="dataloader_stall",
        severity="warning",
        subject=subject_of(()),
        statement=f"{numbers.say('percent', round(100 * share, 1))} % of the time is waiting for "
        f"the data loader, "
        f"as the job logged it {numbers.count('logged', steps, 'time')}",
        fix=INPUT_FIX,
        source=f"TraceML's INPUT_BOUND ({WARN_SHARE:.0%}), on TorchTitan's "
        f"time_metrics/data_loading(%)",
        numbers=numbers,
        details={"data_share": round(share, 4)},
    )


def _full(ranks: Sequence[RankMetrics]) -> JobDiagnosis | None:
    full_ranks = full_memory(ranks)
    if not full_ranks:
        return None
    worst, numbers = full_ranks[0], Numbers()
    named_ranks = [memory.rank for memory in full_ranks if memory.rank is not None]
    who = f"{numbers.ranks(named_ranks)}: " if named_ranks else ""
    percent = numbers.say("percent", round(worst.percent, 1))
    statement = f"{who}up to {percent} % of the device's memory is reserved"
    if worst.retries:
        times = numbers.count("retries", worst.retries, "time")
        statement += f", and the allocator had to free it {times} to go on"
    if worst.ooms:
        statement += f"; {numbers.count('ooms', worst.ooms, 'allocation')} failed"
    return JobDiagnosis(
        rule="memory_pressure",
        # A failed allocation is critical, whatever share was reserved.
        severity="critical" if worst.ooms else pressure(worst.percent / 100) or "warning",
        subject=subject_of(named_ranks),
        statement=statement,
        fix=PRESSURE_FIX,
        source="TraceML (92 %, 97 %), on TorchTitan's memory/max_reserved(%), num_alloc_retries "
        "and num_ooms",
        numbers=numbers,
    )


def log_diagnoses(logs: JobLogs, world: Collection[int]) -> list[JobDiagnosis]:
    """Memory that ran out, hardware errors, exceptions that are nobody else's fault.

    `world` holds the known ranks of the job.
    """
    failures = [
        _memory(logs, GPU_MEMORY, "the GPU"),
        _memory(logs, HOST_MEMORY, "the host"),
        _xid(logs),
    ]
    failures += [_failure(logs, rule, names) for rule, names in FAILURES.items()]
    failures += [_failure(logs, "known_failure", _clear(logs)), _exceptions(logs, world)]
    return [diagnosis for diagnosis in failures if diagnosis is not None]


def _clear(logs: JobLogs) -> tuple[str, ...]:
    """Signatures that no other rule reports, the clearest first."""
    of_rules = {"xid", *GPU_MEMORY, *HOST_MEMORY}
    for names in FAILURES.values():
        of_rules.update(names)
    shown: dict[str, Signature] = {}
    for log in logs.ranks.values():
        for failure in log.failures.values():
            shown[failure.signature.name] = failure.signature
    clear = [
        signature
        for name, signature in shown.items()
        if name not in of_rules and _is_clear(signature)
    ]
    # Of equal weights the name decides, so that every run reports the same.
    clear.sort(key=lambda signature: (-signature.weight, signature.name))
    return tuple(signature.name for signature in clear)


def _is_clear(signature: Signature) -> bool:
    if signature.symptom or signature.weight < CLEAR_WEIGHT:
        return False
    return signature.accuses in ("gpu", "host") or signature.kind == "scheduling"


def _first_failed(logs: JobLogs, names: Sequence[str]) -> list[tuple[int | None, LoggedFailure]]:
    """Where the first of these signatures that is there was logged."""
    for name in names:
        failed = logs.failed(name)
        if failed:
            return failed
    return []


def _memory(logs: JobLogs, names: Sequence[str], where: str) -> JobDiagnosis | None:
    failed = _first_failed(logs, names)
    if not failed:
        return None
    ranks = tuple(rank for rank, _ in failed if rank is not None)
    (first_rank, first), numbers = failed[0], Numbers()
    raised = _raised(logs, first_rank, memory=True)
    who = f"{numbers.ranks(ranks)} ran" if ranks else "a process ran"
    statement = f"{who} out of memory on {where}"
    if raised is not None and raised.frame is not None:
        numbers["line"] = float(raised.frame.line)
        statement += f" in {_place(raised)}"
    return JobDiagnosis(
        rule="out_of_memory",
        severity="critical",
        subject=subject_of(ranks) if ranks else where,
        statement=statement,
        fix=first.signature.action,
        source=first.signature.source,
        numbers=numbers,
        ranks=ranks,
        details={
            "memory": where,
            "line": readable(first.line, MAX_EXCERPT),
            "count": first.count,
        },
    )


def _xid(logs: JobLogs) -> JobDiagnosis | None:
    """The driver's errors that speak of hardware, the clearest first."""
    rows = []
    for rank, log in logs.ranks.items():
        for failure in log.failures.values():
            row = _xid_row(rank, failure)
            if row is not None:
                rows.append(row)
    if not rows:
        return None
    rows.sort(key=_by_weight)
    first, numbers = rows[0], Numbers()
    ranks = tuple(sorted({row["rank"] for row in rows if row["rank"] is not None}))
    return JobDiagnosis(
        rule="hardware_error",
        severity="critical" if first["weight"] >= ACTION_WEIGHT else "warning",
        subject=subject_of(ranks) if ranks else f"GPU {first['device']}",
        statement=f"the NVIDIA driver reports Xid {numbers.say('xid', first['xid'])} on "
        f"{first['device']}: {first['meaning']}",
        fix=f"{first['action'][0].upper()}{first['action'][1:]}.",
        source="NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors)",
        numbers=numbers,
        ranks=ranks,
        details={"xids": rows[:20]},
    )


def _by_weight(row: dict[str, Any]) -> tuple[float, int, int]:
    # None does not compare with numbers: put logs without a rank first.
    rank = -1 if row["rank"] is None else row["rank"]
    return -row["weight"], rank, row["xid"]


def _xid_row(rank: int | None, failure: LoggedFailure) -> dict[str, Any] | None:
    number = XID.search(failure.line) if failure.signature.name == "xid" else None
    if number is None:
        return None
    xid = XIDS.get(int(number[2]))
    # An Xid of software accuses no device.
    if xid is not None and not xid.is_hardware:
        return None
    row = {
        "rank": rank,
        "xid": int(number[2]),
        "device": readable(number[1], 40),
        "count": failure.count,
    }
    if xid is None:
        # NVIDIA's table knows more Xids than ours: take an unknown one seriously.
        return row | {
            "meaning": "not in the table",
            "action": "see NVIDIA's table",
            "weight": ACTION_WEIGHT,
        }
    return row | {"meaning": xid.meaning, "action": xid.action, "weight": xid.weight}


def _failure(logs: JobLogs, rule: str, names: Sequence[str]) -> JobDiagnosis | None:
    failed = _first_failed(logs, names)
    if not failed:
        return None
    ranks = tuple(rank for rank, _ in failed if rank is not None)
    first, numbers = failed[0][1], Numbers()
    who = f"{numbers.ranks(ranks)}: " if ranks else ""
    return JobDiagnosis(
        rule=rule,
        severity="critical",
        subject=subject_of(ranks) if ranks else "the job",
        statement=f"{who}{first.signature.meaning}",
        fix=first.signature.action,
        source=first.signature.source,
        numbers=numbers,
        ranks=ranks,
        details={
            "signature": first.signature.name,
            "line": readable(first.line, MAX_EXCERPT),
            "count": first.count,
        },
    )


def _exceptions(logs: JobLogs, world: Collection[int]) -> JobDiagnosis | None:
    """Exceptions that follow from no other rank's failure; what all ranks raise alike blames
    none."""
    exceptions = _root_exceptions(logs)
    if not exceptions:
        return None
    ranks = tuple(sorted(rank for rank in exceptions if rank is not None))
    first = exceptions[ranks[0]] if ranks else exceptions[None]
    blamed = ranks if set(ranks) < set(world) else ()
    numbers = Numbers()
    if blamed:
        who, verb = numbers.ranks(blamed), "raises" if len(blamed) == 1 else "raise"
    else:
        who, verb = ("all ranks", "raise") if ranks else ("a process", "raises")
    statement = f"{who} {verb} {readable(first.type.rpartition('.')[2], 60)}"
    if first.frame is not None:
        numbers["line"] = float(first.frame.line)
        statement += f" in {_place(first)}"
    rows = []
    for rank, raised in exceptions.items():
        # Messages of exceptions are foreign text.
        message = readable(raised.message, 160)
        rows.append({"rank": rank, "exception": readable(raised.type), "message": message})
    return JobDiagnosis(
        rule="exception",
        severity="critical",
        subject=subject_of(blamed) if ranks else "the job",
        statement=statement,
        fix=f"Read the traceback in the log of "
        f"{numbers.ranks(blamed[:1]) if blamed else 'any rank'}.",
        source="exceptions in the logs, without those that follow from another rank's end",
        numbers=numbers,
        ranks=blamed,
        details={"exceptions": rows[:20]},
    )


def _root_exceptions(logs: JobLogs) -> dict[int | None, LoggedException]:
    """By rank, the first exception that follows from nobody else's."""
    exceptions = {}
    for rank in logs.ranks:
        raised = _raised(logs, rank)
        if raised is not None:
            exceptions[rank] = raised
    return exceptions


def is_symptom(raised: LoggedException) -> bool:
    """Whether an exception follows from another rank's failure, or is a launcher's or a
    person's."""
    # DistBackendError reports a failed collective; its cause lies elsewhere.
    if raised.type.rpartition(".")[2] in QUIET_EXCEPTIONS or "DistBackendError" in raised.type:
        return True
    signature = match(f"{raised.type}: {raised.message}")
    return signature is not None and signature.kind in SYMPTOMS


def _raised(logs: JobLogs, rank: int | None, memory: bool = False) -> LoggedException | None:
    """The first exception of a rank that is no symptom; of memory, or of anything else."""
    log = logs.ranks.get(rank)
    if log is None:
        return None
    for raised in log.exceptions:
        signature = match(f"{raised.type}: {raised.message}")
        is_memory = signature is not None and signature.kind == "memory"
        if is_memory == memory and not is_symptom(raised):
            return raised
    return None


def _place(raised: LoggedException) -> str:
    frame = raised.frame
    if frame is None:
        return "an unknown place"
    file = readable(PurePath(frame.file).name, 60)
    return f"{readable(frame.function, 60)} ({file}:{frame.line})"
