"""One capture from its claim to its row in the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from faultline.analysis.errors import SettingsError
from faultline.bot.investigation.capture.captured import (
    CaptureGap,
    CapturePlan,
    CaptureResult,
    MethodResult,
    single_line,
    status_of,
)
from faultline.bot.investigation.capture.debug_server import capture_through_debug_servers
from faultline.bot.investigation.capture.through_dynolog import capture_through_dynolog
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.follow_ups import CaptureLog


def _silent(_: str) -> None:
    pass


async def run_capture(
    plan: CapturePlan,
    log: CaptureLog,
    output: Path,
    *,
    requested_by: str,
    say: Callable[[str], None] = _silent,
) -> CaptureResult:
    """Ask the job, if its cool-down and budget allow it. The files come to lie in `output`/<id of
    the capture>.

    Whatever happens has a row in the record. Raises SettingsError when `output` cannot be written
    to.
    """
    # Before the claim: a folder that cannot be written to must not use up the budget.
    _make(output)
    claim = await in_store(
        log.claim,
        plan.job,
        requested_by=single_line(requested_by),
        requested=plan.requested,
        hosts=plan.hosts,
        budget=plan.budget,
    )
    folder = output / claim.id
    if claim.refusal is not None:
        return CaptureResult(claim.id, plan.job, "refused", folder, refusal=claim.refusal)
    try:
        _make(folder)
        method_result = await _capture_files(plan, claim.id, folder, say)
        result = CaptureResult(
            claim.id,
            plan.job,
            status_of(method_result),
            folder,
            method_result.files,
            method_result.gaps,
            method_result.refusal,
            method_result.start,
        )
        await in_thread(_leave, result)
    # Close the row even when cancelled, and without an `await`, which could be cancelled again.
    except BaseException as error:
        log.finish(claim.id, "failed", result=f"ended early ({type(error).__name__})", counts=True)
        raise
    await in_store(
        log.finish, claim.id, result.status, result=result.text, counts=method_result.counts
    )
    return result


async def _capture_files(
    plan: CapturePlan, capture_id: str, folder: Path, say: Callable[[str], None]
) -> MethodResult:
    """Through the debug servers where the job has them, else through the daemons."""
    before: tuple[CaptureGap, ...] = ()
    if plan.debug_server is not None:
        refusal = await capture_through_debug_servers(plan, folder, say)
        if isinstance(refusal, MethodResult):
            return refusal
        if not plan.daemons:
            return MethodResult(counts=False, refusal=refusal)
        before = (CaptureGap(plan.debug_server, refusal),)
    method_result = await capture_through_dynolog(plan, capture_id, folder, say)
    return replace(method_result, gaps=before + method_result.gaps)


def _leave(result: CaptureResult) -> None:
    if result.files:
        result.write_note()
    elif not any(result.folder.iterdir()):
        result.folder.rmdir()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(str(folder), f"cannot be written to ({error.strerror})") from error
