"""`trace s3://bucket/prefix`: the trace doctor over a job's files, in a process with a time limit;
its words.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.intake.questions.request_kind import SMALL, RequestKind, understand
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.words import words
from faultline.bot.runtime.threads import in_thread
from faultline.connectors.vendors.traces import TracesSettings

# Which places `trace` may read: below one of the configured `traces.locations`, and nothing else.
#
# A location is a folder or `s3://bucket/prefix`; `{job}` in it stands for one name. What is asked
# for must lie in it by whole path segments, so that `s3://bucket/traces` opens neither
# `s3://bucket/traces-private` nor `s3://bucket`.

MAX_LOCATION = 1_024
_SEGMENT = re.compile(r"[^/\x00-\x1f\x7f?*\[\]\\]{1,255}")
_JOB = re.compile(r"\\\{job\\\}")


def allowed_place(address: str, locations: Sequence[str]) -> str | None:
    """The place to read, or None when it lies in no configured location."""
    address = address.strip().rstrip("/")
    if not address or len(address) > MAX_LOCATION:
        return None
    if address.startswith("/"):
        return _local(address, locations)
    if address.startswith("s3://") and _within_s3(address, locations):
        return address
    return None


def _within_s3(address: str, locations: Sequence[str]) -> bool:
    segments = address.removeprefix("s3://").split("/")
    if not all(
        (_SEGMENT.fullmatch(segment) is not None and segment not in (".", ".."))
        for segment in segments
    ):
        return False
    buckets = [
        location.removeprefix("s3://") for location in locations if location.startswith("s3://")
    ]
    return any(_below(segments, bucket) for bucket in buckets)


def _local(address: str, locations: Sequence[str]) -> str | None:
    """The real path, links followed, below the real path of a location."""
    try:
        real = Path(address).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    for location in locations:
        if location.startswith("s3://"):
            continue
        try:
            # The location with the links in front of `{job}` followed: what comes behind it is not
            # known yet. Raises OSError, ValueError or RuntimeError.
            if "{job}" not in location:
                pattern = str(Path(location or ".").resolve())
            else:
                head = location.partition("{job}")[0]
                base = Path(head or ".")
                # In `/data/run-{job}` the name `run-` is a part of the segment that varies.
                if not head.endswith("/"):
                    base = base.parent
                pattern = str(base.resolve()) + location[len(str(base)) :]
        except (OSError, ValueError, RuntimeError):
            continue
        if _below(str(real).strip("/").split("/"), pattern.strip("/")):
            return str(real)
    return None


def _below(segments: Sequence[str], location: str) -> bool:
    parts = location.strip("/").split("/")
    # A location of "/" would open the whole disk.
    if len(segments) < len(parts) or not parts[0]:
        return False
    patterns = (_JOB.sub(r"[^/]+", re.escape(part)) for part in parts)
    return all(re.fullmatch(p, s) for p, s in zip(patterns, segments, strict=False))


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
        # A separate session, so that processes which it forks are killed with it.
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
        # The last line says what went wrong.
        last = problem.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            "it ended without a word"
        ]
        raise EvidenceError(plain(place, 200), plain(last[0], 300))
    report = json.loads(answer.read_bytes())
    return report if isinstance(report, dict) else {}


def worded(report: Mapping[str, Any], place: str) -> AnswerText:
    """The doctor's own sentences, the worst first."""
    summary = report.get("summary") or {}
    diagnoses = [d for d in report.get("diagnoses") or [] if isinstance(d, dict)]
    more = [" · ".join(plain(str(fact), 60) for fact in report.get("facts") or [])]
    left = int(report.get("diagnoses_in_all") or 0) - min(len(diagnoses), MAX_DIAGNOSES)
    if left > 0:
        more.append(f"{left} more in the report")
    unread = int(report.get("unread_in_all") or 0)
    if unread:
        more.append(f"{counted(unread, 'file')} could not be read")
    if summary.get("verdict") == "something_wrong":
        result = "1 diagnosis." if len(diagnoses) == 1 else f"{len(diagnoses)} diagnoses."
    else:
        result = plain(str(summary.get("statement") or "Nothing is wrong with it"), 400)
    headline = f"{shown_place(place)}: {result}"
    return AnswerText(
        lead=headline, lines=_diagnosis_lines(diagnoses), more=tuple(filter(None, more))
    )


def _diagnosis_lines(diagnoses: Sequence[Mapping[str, Any]]) -> tuple[AnswerLine, ...]:
    """The first diagnoses, and what to do about the first that matters."""
    lines = []
    for diagnosis in diagnoses[:MAX_DIAGNOSES]:
        text = plain(str(diagnosis.get("statement") or ""), 600)
        lines.append(AnswerLine(text=text, bold=DOTS.get(str(diagnosis.get("severity")), "Note")))
    for diagnosis in diagnoses:
        if diagnosis.get("severity") in ("critical", "warning") and diagnosis.get("fix"):
            lines.append(AnswerLine(text=plain(str(diagnosis["fix"]), 400), bold="Do"))
            break
    return tuple(lines)


def shown_place(place: str) -> str:
    """Without `s3://`: what looks like an address is taken apart in replies."""
    return plain(place.removeprefix("s3://"), 200)


def _check_size(place: str, settings: TracesSettings) -> None:
    """Raises BudgetExceeded before anything is downloaded that is more than one request may
    read."""
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    options: dict[str, Any] = {}
    if settings.endpoint_url:
        # Plain HTTP only where the operator's endpoint uses it.
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


# Questions about a trace answer: its own sentences, those first that a question is about.

_STEPS = frozenset({RequestKind.NEXT, RequestKind.ACTION, RequestKind.HYPOTHETICAL})
OFFERS = ("which rank is it?", "what should I do?", "where does the time go?")
DO = "Do"


def about_trace(answer: AnswerText, question: str) -> AnswerText:
    """What the trace doctor said about it; all of it where no sentence is closer than another."""
    request = understand(question)
    stems = {_stem(word) for word in request.words if word not in SMALL}
    if request.kind in _STEPS:
        steps = tuple(line for line in answer.lines if line.bold == DO)
        return _excerpt("The trace report recommends:", steps, answer)
    lines = [line for line in answer.lines if stems & {_stem(word) for word in words(line.text)}]
    if lines:
        return _excerpt("From the trace report:", tuple(lines), answer)
    if request.kind is RequestKind.UNKNOWN:
        offers = tuple(AnswerLine(text=offer, bold="Ask") for offer in OFFERS)
        return AnswerText(
            lead="I can't answer that from the traces. I answer questions about the report above:",
            lines=offers,
        )
    return _excerpt(answer.lead, answer.lines, answer)


def _excerpt(opening: str, lines: tuple[AnswerLine, ...], answer: AnswerText) -> AnswerText:
    if not lines:
        return AnswerText(lead="The trace report recommends nothing.", lines=answer.lines[:3])
    return AnswerText(lead=opening, lines=lines, more=answer.more)


def _stem(word: str) -> str:
    return word.removesuffix("s")
