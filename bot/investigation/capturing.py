"""Capture: where an alert is about a training job and no trace of the incident was found, ask the
job for one.

Only where the job's settings allow both captures and captures by alerts; cool-down, budget and
record are those of `faultline capture`. Whatever is in the way is a gap of the investigation.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.analysis.traces.reading.capture_note import NAME as NOTE
from faultline.analysis.vocabulary import Alert, JobIdentity, Scope
from faultline.bot.investigation.capture.captured import (
    CapturedFile,
    CapturePlan,
    CaptureResult,
    plan_capture,
)
from faultline.bot.investigation.capture.run import run_capture
from faultline.bot.investigation.collecting import CollectionPart, store_part
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import PARTS, CaseStore
from faultline.bot.store.follow_ups import CaptureLog, CaptureRecord
from faultline.connectors.shared.contract.base import Collected, Item, Missing

CAPTURE = "capture"
"""Name of its part of the case, beside those of the connectors."""
ENOUGH = ("profile", "flight_recorder", "nsight", "memory_snapshot")
"""Kinds of files that make a capture unnecessary."""
REQUESTER_PREFIX = "investigation "
"""In the record of captures, followed by the investigation's id."""
SHARED_FOR = timedelta(minutes=10)
"""An older capture may show the job as it was before."""
POLL_S = 1.0
LONGEST_WAIT_S = 120.0
"""An answer without the trace is better than one that comes late."""


def may_capture(alert: Alert, scope: Scope, settings: Settings) -> bool:
    """Whether the settings let this alert ask its job for a capture."""
    job = settings.jobs.get(scope.training.name) if scope.training else None
    return (
        job is not None and job.allow_capture and job.capture_on_alert and alert.status == "firing"
    )


def has_traces(parts: Iterable[CollectionPart]) -> bool:
    """Whether the connectors brought a trace or dump that was taken in the incident; logs and
    telemetry are neither."""
    items = [
        item for part in parts for item in part.items if item.kind == "traces" and item.cut is None
    ]
    return any(item.details.get("what", "").startswith(ENOUGH) for item in items)


async def capture_part(
    job: JobIdentity | None, settings: Settings, log: CaptureLog, cases: CaseStore, case_id: str
) -> CollectionPart:
    """Ask the job, and store what it brought as a part of the case; without a job the part is
    empty."""
    with tempfile.TemporaryDirectory(prefix="faultline-capture-") as scratch:
        folder = Path(scratch)
        files = folder / "files"
        files.mkdir()
        collected = (
            Collected() if job is None else await _ask(job, settings, log, cases, files, case_id)
        )
        return await in_thread(store_part, CAPTURE, collected, folder, cases, case_id)


async def _ask(
    job: JobIdentity,
    settings: Settings,
    log: CaptureLog,
    cases: CaseStore,
    files: Path,
    case_id: str,
) -> Collected:
    try:
        plan = _plan(settings, job)
        result = await run_capture(plan, log, files, requested_by=f"{REQUESTER_PREFIX}{case_id}")
        # In a cool-down: the earlier capture may be this investigation's own, or one to share.
        if result.refusal is not None:
            interrupted_capture = await in_store(_interrupted, plan.job, log, case_id)
            shared = interrupted_capture or await _shared(plan, log, cases, files)
            return shared or _collected(result)
    except FaultlineError as error:
        return Collected(missing=(Missing("traces", f"capture of {job.name}", str(error)),))
    return _collected(result)


def _interrupted(job: str, log: CaptureLog, case_id: str) -> Collected | None:
    """The worker that asked for this investigation ended before the answer: the capture's row is
    closed."""
    last = _last(job, log)
    if (
        last is None
        or last.requested_by != f"{REQUESTER_PREFIX}{case_id}"
        or last.finished_at is not None
    ):
        return None
    log.finish(
        last.id, "failed", result="its worker ended before the files were there", counts=True
    )
    why = f"capture {last.id} was asked for, but the worker ended before its files were there"
    return Collected(missing=(Missing("traces", f"capture of {job}", why),))


def _last(job: str, log: CaptureLog) -> CaptureRecord | None:
    # Rows that do not count asked no machine.
    return next((r for r in log.history(job) if r.counts), None)


async def _shared(
    plan: CapturePlan, log: CaptureLog, cases: CaseStore, files: Path
) -> Collected | None:
    """The files of another investigation's capture, within whose cool-down this one came; waits for
    one that runs."""
    ends = time.monotonic() + LONGEST_WAIT_S
    while True:
        last = await in_store(_last, plan.job, log)
        if (
            last is None
            or not last.requested_by.startswith(REQUESTER_PREFIX)
            or last.status in ("failed", "refused")
        ):
            return None
        if await in_thread(_stored, last, cases) or time.monotonic() > ends:
            break
        await asyncio.sleep(POLL_S)
    if datetime.now(UTC) - last.requested_at > SHARED_FOR:
        return None
    return await in_thread(_copied, last, cases, files) or None


def _stored(capture: CaptureRecord, cases: CaseStore) -> bool:
    """Whether all its files are in the other's case: a part's note comes after its files, and goes
    once they moved."""
    other = capture.requested_by.removeprefix(REQUESTER_PREFIX)
    if capture.finished_at is None:
        return False
    noted = cases.get(other, f"{PARTS}/{CAPTURE}/part.json") is not None
    return noted or bool(cases.names(other, f"traces/{capture.id}"))


def _copied(capture: CaptureRecord, cases: CaseStore, files: Path) -> Collected | None:
    """The files are in the other's case, or still in its part."""
    other, folder = capture.requested_by.removeprefix(REQUESTER_PREFIX), files / capture.id
    items = []
    for below in (f"{PARTS}/{CAPTURE}/files/{capture.id}", f"traces/{capture.id}"):
        for name in cases.names(other, below):
            content = cases.get(other, name)
            target = folder / name.rsplit("/", 1)[-1]
            # Found in the part already, while the files are being moved.
            if content is None or target.exists():
                continue
            folder.mkdir(exist_ok=True)
            target.write_bytes(content)
            if target.name != NOTE:
                query = (
                    f"{target.name} of capture {capture.id} of {capture.job}, taken for "
                    f"investigation {other}"
                )
                items.append(
                    Item("traces", query, file=f"{capture.id}/{target.name}", bytes=len(content))
                )
    return Collected(items=tuple(items)) if items else None


def _plan(settings: Settings, job: JobIdentity) -> CapturePlan:
    plan = plan_capture(settings, job.name)
    slurm = job.slurm_job_id or ""
    if not plan.slurm_job_id and slurm.isascii() and slurm.isdigit() and len(slurm) <= 18:
        plan = replace(plan, slurm_job_id=int(slurm))
    return replace(plan, wait_seconds=min(plan.wait_seconds, LONGEST_WAIT_S))


def _collected(result: CaptureResult) -> Collected:
    missing = [
        Missing("traces", f"capture of {result.job}: {gap.where}", gap.why) for gap in result.gaps
    ]
    if result.refusal is not None:
        missing.append(Missing("traces", f"capture of {result.job}", result.refusal))
    return Collected(
        items=tuple(_item(result, file) for file in result.files), missing=tuple(missing)
    )


def _item(result: CaptureResult, file: CapturedFile) -> Item:
    who = f"rank {file.rank}" if file.rank is not None else f"process {file.pid}"
    return Item(
        "traces",
        f"{file.kind.replace('_', ' ')} of {who} on {file.host}, capture {result.id} of "
        f"{result.job}",
        file=f"{result.folder.name}/{file.path.name}",
        bytes=file.path.stat().st_size,
        details={"what": f"{file.kind} of {who}", "host": file.host, "capture": result.id},
    )
