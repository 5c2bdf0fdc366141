"""A capture through the hosts' Dynolog daemons: all of them asked for the same moment, their files
collected.

The first host is asked alone, so that a job which is being recorded already is left alone on all
the others. Source of the procedure: dynolog/scripts/pytorch/unitrace.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.captured import CaptureGap, CapturePlan, MethodResult
from faultline.bot.investigation.capture.dynolog import (
    START_MARGIN_SECONDS,
    CaptureOptions,
    DaemonAddress,
    DynologClient,
    Triggered,
    output_of,
)
from faultline.bot.investigation.capture.outputs import Collector, ExpectedFile, output_place
from faultline.bot.runtime.threads import in_thread

AT_ONCE = 64
"""Hosts spoken to at the same time."""
DAEMON_SECONDS = 5.0
"""How long a daemon may take to answer; it answers from memory."""


@dataclass(frozen=True)
class _Answer:
    host: int
    """Which of the plan's daemons."""
    trigger: Triggered | None
    problem: str = ""


async def capture_through_dynolog(
    plan: CapturePlan, capture_id: str, folder: Path, say: Callable[[str], None] = lambda _: None
) -> MethodResult:
    """Ask, wait and collect into `folder`."""
    prefix = f"faultline-{capture_id}"
    try:
        # Look first whether files could be collected here: otherwise the job records for nothing.
        place = await in_thread(output_place, plan.trace_location, plan.endpoint_url)
        await in_thread(place.sizes, prefix)
    except ConnectorError as error:
        return MethodResult(counts=False, refusal=f"{error}; nothing was asked of the job")
    alive, gaps = await _alive(plan)
    if not alive:
        return MethodResult(gaps=tuple(gaps), counts=False, refusal=_nobody(gaps))
    # The first host is asked alone, and may take its time before the others are asked.
    seconds = START_MARGIN_SECONDS + (DAEMON_SECONDS if len(alive) > 1 else 0)
    start = datetime.now(UTC) + timedelta(seconds=seconds)
    say(f"asking {len(alive)} hosts for {plan.requested}")
    answers = await _trigger_all(plan, alive, prefix, start)
    first = answers[0]
    if first.trigger is not None and first.trigger.busy and not first.trigger.triggered:
        return MethodResult(gaps=tuple(gaps), counts=False, refusal=_busy(plan, first))
    gaps += _gaps(plan, alive, answers, start)
    expected = [
        _expected(plan, prefix, a.host, pid)
        for a in answers
        if a.trigger
        for pid in a.trigger.triggered
    ]
    collector = Collector(place, prefix, folder, plan.max_file_bytes)
    recording = (
        0.0 if plan.iterations else (start - datetime.now(UTC)).total_seconds() + plan.seconds
    )
    await collector.collect(expected, max(0.0, recording) + plan.wait_seconds, say)
    # Where an answer was lost, the daemon may have started a recording: count it.
    counts = bool(expected) or any(answer.trigger is None for answer in answers)
    return MethodResult(
        tuple(collector.files),
        (*gaps, *collector.gaps),
        counts=counts,
        start=None if plan.iterations else start,
    )


async def _alive(plan: CapturePlan) -> tuple[list[int], list[CaptureGap]]:
    """The daemons that answer, by their place in the plan, and the others."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def problem(daemon: DaemonAddress) -> str | None:
        async with gate:
            try:
                await _client(daemon).status()
            except ConnectorError as error:
                return error.problem
        return None

    problems = await asyncio.gather(*(problem(daemon) for daemon in plan.daemons))
    alive = [n for n, why in enumerate(problems) if why is None]
    return alive, [
        CaptureGap(str(plan.daemons[n]), why) for n, why in enumerate(problems) if why is not None
    ]


async def _trigger_all(
    plan: CapturePlan, alive: list[int], prefix: str, start: datetime
) -> list[_Answer]:
    gate = asyncio.Semaphore(AT_ONCE)
    options = CaptureOptions(
        duration_ms=max(1, round(plan.seconds * 1000)), iterations=plan.iterations
    )

    async def trigger_host(host: int) -> _Answer:
        config = options.text(f"{plan.job_directory}/{_output(prefix, host)}", start)
        async with gate:
            try:
                trigger = await _client(plan.daemons[host]).trigger(
                    config, job_id=plan.slurm_job_id
                )
            except ConnectorError as error:
                return _Answer(host, None, error.problem)
        return _Answer(host, trigger)

    first = await trigger_host(alive[0])
    if first.trigger is not None and first.trigger.busy:
        return [first]
    return [first, *await asyncio.gather(*(trigger_host(host) for host in alive[1:]))]


def _gaps(
    plan: CapturePlan, alive: list[int], answers: list[_Answer], start: datetime
) -> list[CaptureGap]:
    """What the daemons that are alive may not record."""
    gaps = []
    hosts = {answer.host for answer in answers}
    for host in alive:
        if host not in hosts:
            reason = "not asked: the job is being recorded"
            gaps.append(CaptureGap(str(plan.daemons[host]), reason))
    for answer in answers:
        for shortfall in _shortfalls(plan, answer):
            gaps.append(CaptureGap(str(plan.daemons[answer.host]), shortfall))
    left = (start - datetime.now(UTC)).total_seconds()
    # Iterations are counted by each process, so there is no common start to miss.
    if not plan.iterations and left < START_MARGIN_SECONDS / 2:
        late = f"the last one answered {left:.0f} s before the common start: some may miss it"
        gaps.append(CaptureGap("all hosts", late))
    return gaps


def _shortfalls(plan: CapturePlan, answer: _Answer) -> list[str]:
    """What one host's answer lacks."""
    trigger, expected = answer.trigger, plan.ranks_per_host
    if trigger is None:
        return [f"may have been asked: {answer.problem}"]
    if not trigger.matched:
        which = f"of Slurm job {plan.slurm_job_id} " if plan.slurm_job_id else ""
        return [
            f"no process {which}is registered with the daemon (KINETO_USE_DAEMON=1 in the job's "
            f"environment?)"
        ]
    wrong = []
    if trigger.busy:
        wrong.append(
            f"{trigger.busy} of {len(trigger.matched)} processes are being recorded already"
        )
    if expected is not None and len(trigger.matched) < expected:
        wrong.append(f"{len(trigger.matched)} processes are registered, {expected} are expected")
    missing = len(trigger.matched) - len(trigger.triggered) - trigger.busy
    if missing > 0:
        wrong.append(
            f"{missing} of {len(trigger.matched)} registered processes were not asked by the daemon"
        )
    return wrong


def _busy(plan: CapturePlan, first: _Answer) -> str:
    assert first.trigger is not None
    phrase = " and the other hosts were not asked" if len(plan.daemons) > 1 else ""
    return (
        f"{plan.daemons[first.host]}: {first.trigger.busy} processes are being recorded "
        f"already{phrase}; try again later"
    )


def _nobody(gaps: list[CaptureGap]) -> str:
    more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    return f"no Dynolog daemon answers: {gaps[0].where}: {gaps[0].why}{more}"


def _output(prefix: str, host: int) -> str:
    """By host: on shared storage two hosts may have processes of one id."""
    return f"{prefix}-host{host}.json"


def _expected(plan: CapturePlan, prefix: str, host: int, pid: int) -> ExpectedFile:
    # A host's name, with its port where the settings name the host more than once.
    daemon = plan.daemons[host]
    alone = sum(other.host == daemon.host for other in plan.daemons) == 1
    return ExpectedFile(
        output_of(_output(prefix, host), pid), (daemon.host if alone else str(daemon)), pid
    )


def _client(daemon: DaemonAddress) -> DynologClient:
    return DynologClient(daemon, timeout=DAEMON_SECONDS)
