"""`trace s3://bucket/prefix`: the trace doctor over a job's files, in a process with a time limit;
its words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.conversation.allowed_traces import allowed_place
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.runtime.threads import in_thread
from faultline.connectors.vendors.traces.settings import TracesSettings

TRACE_WITHIN_S = 900.0
MAX_BYTES = 20_000_000_000
"""All files of one request together: what a small machine's disk and a quarter of an hour take."""
MAX_PAGE_BYTES = 50_000_000
"""A larger page is not attached."""
MAX_DIAGNOSES = 6
DOTS = {"critical": "Critical", "warning": "Warning", "info": "Note"}


def refusal(address: str, settings: TracesSettings) -> AnswerText | None:
    """Why the place is not read, or None when it may be."""
    if not settings.locations:
        return AnswerText(lead="I may read no traces: traces.locations is not set.")
    if allowed_place(address, settings.locations) is not None:
        return None
    if not address:
        return AnswerText(
            lead="Say where: trace, and the address of a bucket and prefix below traces.locations."
        )
    return AnswerText(
        lead="I may not read that: it lies in none of the configured traces.locations."
    )


async def run_trace_doctor(address: str, settings: TracesSettings, folder: Path) -> AnswerText:
    """Analyse what lies there; the page is left in the folder. Raises EvidenceError,
    BudgetExceeded."""
    place = allowed_place(address, settings.locations)
    if place is None:
        raise EvidenceError("trace", "the place is not among traces.locations")
    return worded(await diagnosed(place, settings, folder), place)


async def diagnosed(place: str, settings: TracesSettings, folder: Path) -> Mapping[str, Any]:
    """What the doctor says of a place that may be read: summary, facts, diagnoses, what was left
    out. Raises EvidenceError, BudgetExceeded."""
    if place.startswith("s3://"):
        await in_thread(_check_size, place, settings)
    return await _in_a_process(place, settings, folder)


def worded(report: Mapping[str, Any], place: str) -> AnswerText:
    """The doctor's own sentences, the worst first."""
    summary, diagnoses = (
        report.get("summary") or {},
        [d for d in report.get("diagnoses") or [] if isinstance(d, dict)],
    )
    lines = [
        AnswerLine(
            text=plain(str(d.get("statement") or ""), 600),
            bold=DOTS.get(str(d.get("severity")), "Note"),
        )
        for d in diagnoses[:MAX_DIAGNOSES]
    ]
    first = next(
        (d for d in diagnoses if d.get("severity") in ("critical", "warning") and d.get("fix")),
        None,
    )
    if first is not None:
        lines.append(AnswerLine(text=plain(str(first["fix"]), 400), bold="Do"))
    facts = " · ".join(plain(str(f), 60) for f in report.get("facts") or [])
    more = [facts] if facts else []
    left = int(report.get("diagnoses_in_all") or 0) - min(len(diagnoses), MAX_DIAGNOSES)
    more += [f"{left} more in the report"] if left > 0 else []
    unread = int(report.get("unread_in_all") or 0)
    more += [f"{counted(unread, 'file')} could not be read"] if unread else []
    nothing = plain(str(summary.get("statement") or "Nothing is wrong with it"), 400)
    wrong = summary.get("verdict") == "something_wrong"
    sentence = (
        f"{shown_place(place)}: "
        f"{counted(len(diagnoses), 'diagnosis').replace('diagnosiss', 'diagnoses')}."
    )
    return AnswerText(
        lead=sentence if wrong else f"{shown_place(place)}: {nothing}",
        lines=tuple(lines),
        more=tuple(more),
    )


def shown_place(place: str) -> str:
    """Without `s3://`: what looks like an address is taken apart in replies."""
    return plain(place.removeprefix("s3://"), 200)


async def _in_a_process(place: str, settings: TracesSettings, folder: Path) -> Mapping[str, Any]:
    environ = dict(os.environ)
    if settings.endpoint_url:
        environ["AWS_ENDPOINT_URL_S3"] = settings.endpoint_url
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "faultline.bot.conversation.trace_process",
        place,
        str(folder),
        env=environ,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TRACE_WITHIN_S):
            _, problem = await process.communicate()
    except TimeoutError:
        raise BudgetExceeded("trace time", f"{TRACE_WITHIN_S / 60:.0f} min") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()
    answer = folder / "answer.json"
    if process.returncode != 0 or not answer.exists():
        last = problem.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            "it ended without a word"
        ]
        raise EvidenceError(plain(place, 200), plain(last[0], 300))
    report = json.loads(answer.read_bytes())
    return report if isinstance(report, dict) else {}


def _check_size(place: str, settings: TracesSettings) -> None:
    """Raises BudgetExceeded before anything is downloaded that is more than one request may
    read."""
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    options: dict[str, Any] = {}
    if settings.endpoint_url:
        local = settings.endpoint_url.startswith("http://")
        options = {"endpoint": settings.endpoint_url, "client_options": {"allow_http": local}}
    files, total = 0, 0
    try:
        for batch in obstore.list(S3Store(bucket, **options), prefix or None):
            files += len(batch)
            total += sum([int(meta["size"]) for meta in batch])
            if files > settings.max_files:
                raise BudgetExceeded("trace files", f"{settings.max_files:,}")
            if total > MAX_BYTES:
                raise BudgetExceeded("trace size", f"{MAX_BYTES / 1e9:.0f} GB")
    except (BaseError, OSError, ValueError) as error:
        problem = (str(error).splitlines() or [""])[0][:200]
        raise EvidenceError(
            plain(place, 200), f"cannot be listed ({plain(problem, 200)})"
        ) from error
