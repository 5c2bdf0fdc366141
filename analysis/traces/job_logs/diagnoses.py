"""What metrics and logs say is wrong, as diagnoses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.flight_recorder.wording import Numbers, bounded, subject_of
from analysis.traces.job_logs.metrics import RankMetrics
from analysis.traces.job_logs.rank_logs import JobLogs, LoggedException, LoggedFailure
from analysis.traces.job_logs.signatures import XID, XIDS, match
from analysis.traces.job_logs.training_health import (
    INPUT_SHARE,
    LossSpike,
    first_not_a_number,
    full_memory,
    input_bound,
    loss_spikes,
    slowdown,
)
from analysis.traces.readable import readable

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
"""Rule -> the signatures that it tells, the first that is there."""
GPU_MEMORY = ("cuda_out_of_memory",)
HOST_MEMORY = (
    "host_out_of_memory",
    "container_out_of_memory",
    "heap_out_of_memory",
    "cannot_allocate",
)
ACTION_WEIGHT = 0.5
"""Of an Xid for which NVIDIA asks for something at once; one below is a warning."""
CLEAR_WEIGHT = 0.7
"""Another signature of a GPU, a host or the scheduler that speaks this clearly is told as
`known_failure` (own)."""
CRITICAL_MEMORY = 97.0
"""Percent of the device's memory, reserved (TraceML)."""


def metrics_diagnoses(ranks: Sequence[RankMetrics]) -> list[Diagnosis]:
    """NaN or Inf, loss spikes, a lasting loss of speed; waiting for input and full memory, where
    the job logs them."""
    found = [
        _nan(ranks),
        _spike(ranks, loss_spikes(ranks)),
        _slowdown(ranks),
        _input(ranks),
        _full(ranks),
    ]
    return [d for d in found if d is not None]


def _nan(ranks: Sequence[RankMetrics]) -> Diagnosis | None:
    bad = first_not_a_number(ranks)
    if bad is None:
        return None
    numbers = Numbers()
    what = "loss" if bad.measure == "loss" else "gradient norm"
    value = "NaN" if bad.value != bad.value else "infinite"
    who = f" of {numbers.ranks(bad.ranks)}" if bad.ranks else ""
    statement = f"the {what}{who} is {value} from step {numbers.say('step', bad.step)} on"
    if not bad.lasting:
        statement = f"the {what}{who} is {value} at step {numbers.say('step', bad.step)}"
    if bad.ranks and bad.later:
        later = len(bad.later)
        statement += (
            f", before {numbers.count('later', later, 'other rank')} "
            f"{'follows' if later == 1 else 'follow'}"
        )
    if bad.ranks:
        one = len(bad.ranks) == 1
        fix = (
            f"Look at the input of {'that rank' if one else 'those ranks'} at that step; the "
            f"others only took over "
        )
        fix += (
            "its gradients. Skip or clip such batches."
            if one
            else "their gradients. Skip or clip such batches."
        )
    else:
        fix = (
            "Check the learning rate, loss scaling and the batch at that step; "
            "torch.autograd.set_detect_anomaly."
        )
    return Diagnosis(
        rule="nan_loss",
        severity="critical" if bad.lasting else "warning",
        subject=subject_of(bad.ranks),
        statement=statement,
        fix=fix,
        source="first rank and step with a value that is no number in the job's metrics",
        numbers=numbers,
        ranks=bad.ranks,
        steps=(bad.step,),
        details={
            "measure": bad.measure,
            "last_good": bad.last_good,
            "later_ranks": bounded(bad.later),
        }
        | _moment(ranks, bad.step),
    )


def _moment(ranks: Sequence[RankMetrics], step: int) -> dict[str, Any]:
    """When a step was, and how long after the one before it; nothing where the job wrote no
    times."""
    found = [(own.times[step], own) for own in ranks if step in own.times]
    if not found:
        return {}
    at, own = min(found, key=lambda pair: pair[0])
    before = max((t for s, t in own.times.items() if s < step and t <= at), default=at)
    return {
        "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
        "at_within_s": round(at - before, 3),
    }


def _spike(ranks: Sequence[RankMetrics], spikes: Sequence[LossSpike]) -> Diagnosis | None:
    if not spikes:
        return None
    first = min(spikes, key=lambda s: s.step)
    numbers = Numbers()
    lasting = not first.recovered
    statement = (
        f"the loss jumps to {numbers.say('loss', round(first.value, 4))} at step "
        f"{numbers.say('step', first.step)}, "
        f"{numbers.say('times', round(first.value / first.before, 1))} times that of the steps "
        f"before"
        f"{', and does not come back' if lasting else ', and comes back'}"
    )
    return Diagnosis(
        rule="loss_spike",
        severity="warning" if lasting else "info",
        subject=subject_of(()),
        statement=statement,
        fix="Compare the batch and the gradient norm at that step; restart from the checkpoint "
        "before it, or skip it.",
        source="twice the median of 20 steps and 10 robust deviations (own)",
        numbers=numbers,
        steps=(first.step,),
        details={"ranks_that_show_it": bounded(s.rank for s in spikes if s.rank is not None)}
        | _moment(ranks, first.step),
    )


def _slowdown(ranks: Sequence[RankMetrics]) -> Diagnosis | None:
    found = slowdown(ranks)
    if found is None:
        return None
    numbers = Numbers()
    lost = numbers.say("lost_percent", round(100 * found.lost, 1))
    return Diagnosis(
        rule="throughput_drop",
        severity="warning",
        subject=subject_of(()),
        statement=f"the job runs {lost} % slower from step {numbers.say('step', found.step)} to "
        f"the end",
        fix="Capture a profile now and compare it with one from before; look at what changed at "
        "that time.",
        source="20 % of speed (own); one change point in the logarithm of the step time",
        numbers=numbers,
        steps=(found.step,),
        details={
            "before_ms": round(found.before_ms, 4),
            "after_ms": round(found.after_ms, 4),
            "ranks_that_show_it": found.ranks,
        }
        | _moment(ranks, found.step),
    )


def _input(ranks: Sequence[RankMetrics]) -> Diagnosis | None:
    found = input_bound(ranks)
    if found is None:
        return None
    share, steps = found
    numbers = Numbers()
    return Diagnosis(
        rule="dataloader_stall",
        severity="warning",
        subject=subject_of(()),
        statement=f"{numbers.say('percent', round(100 * share, 1))} % of the time is waiting for "
        f"the data loader, "
        f"as the job logged it {numbers.count('logged', steps, 'time')}",
        fix="More DataLoader workers (num_workers), prefetch_factor, persistent_workers, "
        "pin_memory; faster storage or "
        "cheaper transforms.",
        source=f"TraceML's INPUT_BOUND ({INPUT_SHARE:.0%}), on TorchTitan's "
        f"time_metrics/data_loading(%)",
        numbers=numbers,
        details={"data_share": round(share, 4)},
    )


def _full(ranks: Sequence[RankMetrics]) -> Diagnosis | None:
    found = full_memory(ranks)
    if not found:
        return None
    worst, numbers = found[0], Numbers()
    known = [f.rank for f in found if f.rank is not None]
    who = f"{numbers.ranks(known)}: " if known else ""
    percent = numbers.say("percent", round(worst.percent, 1))
    statement = f"{who}up to {percent} % of the device's memory is reserved"
    if worst.retries:
        statement += (
            f", and the allocator had to free it "
            f"{numbers.count('retries', worst.retries, 'time')} to go on"
        )
    if worst.ooms:
        statement += f"; {numbers.count('ooms', worst.ooms, 'allocation')} failed"
    return Diagnosis(
        rule="memory_pressure",
        severity="critical" if worst.ooms or worst.percent >= CRITICAL_MEMORY else "warning",
        subject=subject_of(known),
        statement=statement,
        fix="Activation checkpointing, mixed precision, sharded states (FSDP), or a smaller batch.",
        source="TraceML (92 %, 97 %), on TorchTitan's memory/max_reserved(%), num_alloc_retries "
        "and num_ooms",
        numbers=numbers,
    )


def log_diagnoses(logs: JobLogs, world: Collection[int]) -> list[Diagnosis]:
    """Memory that ran out, hardware errors, exceptions that are nobody else's fault.

    `world` are the job's ranks as far as they are known.
    """
    found = [
        _memory(logs, GPU_MEMORY, "the GPU"),
        _memory(logs, HOST_MEMORY, "the host"),
        _xid(logs),
    ]
    found += [_failure(logs, rule, names) for rule, names in FAILURES.items()]
    found += [_failure(logs, "known_failure", _clear(logs)), _exceptions(logs, world)]
    return [d for d in found if d is not None]


def _clear(logs: JobLogs) -> tuple[str, ...]:
    """Signatures that no other rule tells, the clearest first."""
    told = {
        "xid",
        *GPU_MEMORY,
        *HOST_MEMORY,
        *(name for names in FAILURES.values() for name in names),
    }
    shown = {
        f.signature.name: f.signature for log in logs.ranks.values() for f in log.failures.values()
    }
    clear = [
        s
        for s in shown.values()
        if s.name not in told
        and not s.symptom
        and s.weight >= CLEAR_WEIGHT
        and (s.accuses in ("gpu", "host") or s.kind == "scheduling")
    ]
    return tuple(s.name for s in sorted(clear, key=lambda s: (-s.weight, s.name)))


def _memory(logs: JobLogs, names: Sequence[str], where: str) -> Diagnosis | None:
    failed = next(filter(None, map(logs.failed, names)), [])
    if not failed:
        return None
    ranks = tuple(r for r, _ in failed if r is not None)
    first, numbers = failed[0], Numbers()
    raised = _raised(logs, first[0], memory=True)
    who = f"{numbers.ranks(ranks)} ran" if ranks else "a process ran"
    statement = f"{who} out of memory on {where}"
    if raised is not None and raised.frame is not None:
        numbers["line"] = float(raised.frame.line)
        statement += f" in {_place(raised)}"
    return Diagnosis(
        rule="out_of_memory",
        severity="critical",
        subject=subject_of(ranks) if ranks else where,
        statement=statement,
        fix=first[1].signature.action,
        source=first[1].signature.source,
        numbers=numbers,
        ranks=ranks,
        details={
            "memory": where,
            "line": readable(first[1].line, MAX_EXCERPT),
            "count": first[1].count,
        },
    )


def _xid(logs: JobLogs) -> Diagnosis | None:
    """The driver's errors that speak of hardware, the clearest first."""
    rows = [
        row
        for rank, log in logs.ranks.items()
        for f in log.failures.values()
        if (row := _xid_row(rank, f))
    ]
    if not rows:
        return None
    rows.sort(
        key=lambda row: (-row["weight"], -1 if row["rank"] is None else row["rank"], row["xid"])
    )
    first, numbers = rows[0], Numbers()
    ranks = tuple(sorted({r["rank"] for r in rows if r["rank"] is not None}))
    return Diagnosis(
        rule="hardware_error",
        severity="critical" if first["weight"] >= ACTION_WEIGHT else "warning",
        subject=subject_of(ranks) if ranks else f"GPU {first['device']}",
        statement=f"the NVIDIA driver reports Xid {numbers.say('xid', first['xid'])} on "
        f"{first['device']}: "
        f"{first['meaning']}",
        fix=f"{first['action'][0].upper()}{first['action'][1:]}.",
        source="NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors)",
        numbers=numbers,
        ranks=ranks,
        details={"xids": rows[:20]},
    )


def _xid_row(rank: int | None, failure: LoggedFailure) -> dict[str, Any] | None:
    number = XID.search(failure.line) if failure.signature.name == "xid" else None
    known = XIDS.get(int(number[2])) if number else None
    if number is None or (known is not None and not known.is_hardware):
        return None
    row = {
        "rank": rank,
        "xid": int(number[2]),
        "device": readable(number[1], 40),
        "count": failure.count,
    }
    if known is None:
        return row | {
            "meaning": "not in the table",
            "action": "see NVIDIA's table",
            "weight": ACTION_WEIGHT,
        }
    return row | {"meaning": known.meaning, "action": known.action, "weight": known.weight}


def _failure(logs: JobLogs, rule: str, names: Sequence[str]) -> Diagnosis | None:
    failed = next(filter(None, map(logs.failed, names)), [])
    if not failed:
        return None
    ranks, first, numbers = tuple(r for r, _ in failed if r is not None), failed[0][1], Numbers()
    who = f"{numbers.ranks(ranks)}: " if ranks else ""
    return Diagnosis(
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


def _exceptions(logs: JobLogs, world: Collection[int]) -> Diagnosis | None:
    """Exceptions that follow from no other rank's failure; what all ranks raise alike blames
    none."""
    own = {rank: e for rank in logs.ranks if (e := _raised(logs, rank)) is not None}
    if not own:
        return None
    ranks = tuple(sorted(r for r in own if r is not None))
    first = own[ranks[0]] if ranks else own[None]
    blamed = ranks if set(ranks) < set(world) else ()
    numbers = Numbers()
    who = numbers.ranks(blamed) if blamed else ("all ranks" if ranks else "a process")
    verb = "raises" if len(blamed) == 1 or who == "a process" else "raise"
    statement = f"{who} {verb} {readable(first.type.rpartition('.')[2], 60)}"
    if first.frame is not None:
        numbers["line"] = float(first.frame.line)
        statement += f" in {_place(first)}"
    rows = [
        {"rank": r, "exception": readable(own[r].type), "message": readable(own[r].message, 160)}
        for r in own
    ]
    return Diagnosis(
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


def is_symptom(raised: LoggedException) -> bool:
    """Whether an exception follows from another rank's failure, or is a launcher's or a
    person's."""
    known = match(f"{raised.type}: {raised.message}")
    quiet = raised.type.rpartition(".")[2] in QUIET_EXCEPTIONS
    return (
        quiet or "DistBackendError" in raised.type or (known is not None and known.kind in SYMPTOMS)
    )


def _raised(logs: JobLogs, rank: int | None, memory: bool = False) -> LoggedException | None:
    """The first exception of a rank that is no symptom; of memory, or of anything else."""
    log = logs.ranks.get(rank)
    for raised in log.exceptions if log else ():
        known = match(f"{raised.type}: {raised.message}")
        if is_symptom(raised) or (known is not None and known.kind == "memory") != memory:
            continue
        return raised
    return None


def _place(raised: LoggedException) -> str:
    frame = raised.frame
    if frame is None:
        return "an unknown place"
    return (
        f"{readable(frame.function, 60)} ({readable(PurePath(frame.file).name, 60)}:{frame.line})"
    )
