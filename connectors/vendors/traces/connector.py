"""Training traces: takes what a training job leaves (traces, dumps, logs) from directories, S3,
Google Cloud Storage or Azure Blob Storage into the case."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError, SettingsError
from faultline.analysis.vocabulary import EvidenceKind, Scope
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.guarded_fetch import FetchGuard
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.traces import TracesSettings
from faultline.connectors.vendors.traces.files import Choice, PlaceOf, TraceCapture, choose
from faultline.connectors.vendors.traces.linked import LinkedFile, guard_of, trace_links
from faultline.connectors.vendors.traces.object_places import (
    ObjectPlace,
    is_object_location,
    is_valid_location,
)
from faultline.connectors.vendors.traces.places import VENDOR, DirectoryPlace, S3Place, TracePlace

T = TypeVar("T")

LIMITS = Limits(deadline_s=120, max_bytes=16 * 1024**3, concurrency=8, requests_per_s=50)
LOG_BYTES = 64 * 1024**2
"""Of a longer log its end is taken."""
KEEP_FREE_BYTES = 1024**3
"""Disk space that is left alone."""
CHECK_S = 10.0
_JOB = re.compile(r"[A-Za-z0-9._-]{1,128}")
FORMS = (
    "a directory, s3://bucket/prefix, gs://bucket/prefix, "
    "https://ACCOUNT.blob.core.windows.net/container/prefix or "
    "abfss://container@ACCOUNT.dfs.core.windows.net/prefix"
)
_S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")
_PART = re.compile(r"[^A-Za-z0-9._=+@-]")


def build(
    traces_settings: TracesSettings, settings: SharedSettings
) -> TrainingTracesConnector | None:
    """The configured connector, or None without any location or host."""
    guard = guard_of(traces_settings.hosts, traces_settings.private_networks)
    of_jobs = any(job.traces or job.dumps or job.logs for job in settings.jobs.values())
    if guard is None and not traces_settings.locations and not of_jobs:
        return None
    for name, job in settings.jobs.items():
        for location in (*job.traces, *job.dumps, *job.logs):
            check_location(location, f"jobs.{name}")
    return TrainingTracesConnector(
        traces_settings.locations,
        endpoint_url=traces_settings.endpoint_url,
        max_file_bytes=traces_settings.max_file_bytes,
        max_files=traces_settings.max_files,
        guard=guard,
        limits=traces_settings.limits(LIMITS),
    )


class TrainingTracesConnector:
    """Copies the newest capture of each rank around the incident, and traces that the alert links
    to.

    Looks into no place for alerts without a training job.
    """

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("traces",)

    def __init__(
        self,
        locations: Sequence[str],
        endpoint_url: str | None = None,
        *,
        max_file_bytes: int = 2_000_000_000,
        max_files: int = 4096,
        guard: FetchGuard | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._locations = tuple(locations)
        self._endpoint_url = plain_url(endpoint_url, VENDOR) if endpoint_url else None
        self._max_file_bytes = max_file_bytes
        self._max_files = max_files
        self._guard = guard
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix=VENDOR)
        self.limits = limits
        for location in self._locations:
            check_location(location, "traces.locations")

    async def collect(self, request: Request) -> Collected:
        """Copy the chosen files below `request.files`, under the names they have in their place."""
        job = request.scope.job
        links = trace_links(request.alert) if self._guard is not None else ()
        if job is None and not links:
            return Collected()
        if job is not None and not usable_job(job):
            raise ConnectorError(VENDOR, short(job, 40), "the job's name is not usable in a path")
        room = shutil.disk_usage(request.files).free - KEEP_FREE_BYTES
        copying = _Copying(
            request.files, min(room, self.limits.max_bytes), Deadline.within(self.limits)
        )
        training = request.scope.training
        unknown = training.unknown if training else ()
        collected = Collected(
            missing=tuple(Missing("traces", *_split_reason(gap_text)) for gap_text in unknown)
        )
        places = self._places(job, request.scope) if job is not None else {}
        for number, (location, kind) in enumerate(places, start=1):
            with closing(self._place(location)) as place:
                # The prefix keeps the files of several places apart.
                taken = await self._take(
                    place, kind, request.scope, copying, f"{number}-" if number > 1 else ""
                )
            collected = Collected(
                items=collected.items + taken.items, missing=collected.missing + taken.missing
            )
        taken = await self._linked(links, copying)
        return Collected(
            items=collected.items + taken.items, missing=collected.missing + taken.missing
        )

    async def _linked(self, links: Sequence[str], copying: _Copying) -> Collected:
        """What the alert links to, one after the other; each that may not or cannot be fetched is a
        gap."""
        if self._guard is None:
            return Collected()
        outcomes = [
            await copying.copy_link(
                LinkedFile(self._guard, url, self._max_file_bytes), f"linked-{number}/"
            )
            for number, url in enumerate(links, start=1)
        ]
        items = tuple(outcome for outcome in outcomes if isinstance(outcome, Item))
        return Collected(
            items=items,
            missing=tuple(outcome for outcome in outcomes if isinstance(outcome, Missing)),
        )

    def _places(self, job: str, scope: Scope) -> dict[tuple[str, PlaceOf], None]:
        """Where to look, and what for, each once: what the settings say of all jobs, then of this
        one."""
        places: list[tuple[str, PlaceOf]] = [
            (location.replace("{job}", job), "traces") for location in self._locations
        ]
        if scope.training is not None:
            places += [(location, "traces") for location in scope.training.traces]
            places += [(location, "dumps") for location in scope.training.dumps]
            places += [(location, "logs") for location in scope.training.logs]
        return dict.fromkeys(places)

    async def check(self) -> Check:
        """Can each location be listed?"""
        outcomes = [await self._refusal(location) for location in self._locations]
        notes = [
            f"{short(location, 200)} {'can be listed' if refusal is None else refusal}"
            for location, refusal in zip(self._locations, outcomes, strict=True)
        ]
        if self._guard is not None:
            notes.append(
                f"links of alerts to {', '.join(host.text for host in self._guard.hosts)} "
                "are followed"
            )
        ok = not any(outcomes)
        return Check(
            self.name, ok, f"training traces: {'; '.join(notes)}; only list and read are used"
        )

    async def _refusal(self, location: str) -> str | None:
        """Why the folder above `{job}` cannot be listed, or None."""
        before, has_job, _ = location.partition("{job}")
        # What stands before `{job}` is the same for all jobs.
        folder = (before[: before.rfind("/") + 1] or ".") if has_job else location
        with closing(self._place(folder)) as place:
            try:
                await self._in_thread(partial(_first, place))
            except FaultlineError as error:
                return f"cannot be listed ({error})"
        return None

    def _place(self, location: str) -> TracePlace:
        if is_object_location(location):
            return ObjectPlace(location, self.limits)
        if not location.startswith("s3://"):
            return DirectoryPlace(Path(location))
        bucket, prefix = check_location(location, "traces.locations")
        return S3Place(bucket, prefix, self._endpoint_url, self.limits)

    async def _take(
        self, place: TracePlace, kind: PlaceOf, scope: Scope, copying: _Copying, prefix: str
    ) -> Collected:
        """Choose and copy one place's files; whatever fails is a gap."""
        try:
            choice = await self._in_thread(
                partial(self._choose, place, kind, scope, copying.deadline)
            )
        except FaultlineError as error:
            return Collected(missing=(Missing("traces", place.location, str(error)),))
        missing = [Missing("traces", place.location, f"left out: {why}") for why in choice.left_out]
        if not choice.captures:
            what = {"traces": "trace", "dumps": "dump", "logs": "log"}[kind]
            missing.append(Missing("traces", place.location, f"no {what} of the job lies there"))
        copies = (
            self._in_thread(partial(copying.copy, place, c, prefix, choice))
            for c in choice.captures
        )
        items = []
        for outcome in await asyncio.gather(*copies):
            if isinstance(outcome, Item):
                items.append(outcome)
            else:
                missing.append(outcome)
        return Collected(items=tuple(items), missing=tuple(missing))

    def _choose(self, place: TracePlace, kind: PlaceOf, scope: Scope, deadline: Deadline) -> Choice:
        return choose(
            place.list(deadline),
            scope.incident,
            max_file_bytes=self._max_file_bytes,
            max_files=self._max_files,
            place=kind,
        )

    async def _in_thread(self, call: Callable[[], T]) -> T:
        # An executor does not pass context variables on by itself.
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, copy_context().run, call
        )


class _Copying:
    """Writes files below one folder, within one budget of bytes."""

    def __init__(self, folder: Path, most_bytes: int, deadline: Deadline) -> None:
        self._folder = folder
        self._limit = max(0, most_bytes)
        self._budget = ByteBudget("size of trace files", self._limit)
        self.deadline = deadline

    def copy(
        self, place: TracePlace, capture: TraceCapture, prefix: str, choice: Choice
    ) -> Item | Missing:
        """Copy one file; a part that could not be finished is removed, and the file becomes a
        gap."""
        name = prefix + safe_name(capture.file.name)
        query = f"{place.location.rstrip('/')}/{capture.file.name}"
        start = max(0, capture.file.size - LOG_BYTES) if capture.kind == "log" else 0
        try:
            # A file that cannot fit is not begun.
            if capture.file.size - start > self._budget.left:
                raise BudgetExceeded("size of trace files", f"{self._limit:,} bytes")
            size = self._write(self._folder / name, place.read(capture.file, self.deadline, start))
        except OSError as error:
            return Missing("traces", query, f"cannot be written ({error.strerror})")
        except FaultlineError as error:
            return Missing("traces", query, str(error))
        details = {"what": f"{capture.kind} of {capture.who}", "taken": capture.taken.isoformat()}
        if choice.not_needed:
            details["not taken"] = "; ".join(choice.not_needed)
        cut = f"its last {LOG_BYTES:,} bytes of {capture.file.size:,}" if start else choice.outside
        return Item(
            "traces",
            query,
            link=place.link(capture.file),
            file=name,
            bytes=size,
            cut=cut,
            details=details,
        )

    async def copy_link(self, link: LinkedFile, prefix: str) -> Item | Missing:
        """Copy one linked file; what was begun and could not be finished is removed."""
        capture = link.capture
        name = prefix + safe_name(capture.file.name)
        target = self._folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            size = 0
            with os.fdopen(handle, "wb") as out:
                async for block in link.blocks(self.deadline):
                    self._budget.take(len(block))
                    size += out.write(block)
        except OSError as error:
            target.unlink(missing_ok=True)
            return Missing("traces", link.shown, f"cannot be written ({error.strerror})")
        except FaultlineError as error:
            target.unlink(missing_ok=True)
            return Missing("traces", link.shown, str(error))
        # Also on cancellation: half a file must not pass for a trace.
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        details = {"what": f"{capture.kind} of {capture.who}, linked in the alert"}
        return Item("traces", link.shown, link=link.shown, file=name, bytes=size, details=details)

    def _write(self, target: Path, chunks: Iterator[bytes]) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        # O_EXCL: write neither through a link nor over another file.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        size = 0
        try:
            with os.fdopen(handle, "wb") as out:
                for chunk in chunks:
                    self._budget.take(len(chunk))
                    size += out.write(chunk)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return size


def usable_job(job: str) -> bool:
    """Whether a job's name may stand in a path: an alert's label could hold anything."""
    # `.` and `..` would lead to another folder.
    return _JOB.fullmatch(job) is not None and set(job) != {"."}


def check_location(location: str, key: str) -> tuple[str, str]:
    """Bucket and prefix of an S3 location, nothing for any other. Raises SettingsError naming the
    key."""
    if is_object_location(location):
        if not is_valid_location(location):
            raise SettingsError(key, f"{location!r} must be {FORMS}")
        return "", ""
    if not location.startswith("s3://"):
        return "", ""
    match = _S3.fullmatch(location)
    if match is None:
        raise SettingsError(key, f"{location!r} must be {FORMS}")
    return match[1], match[2] or ""


def _split_reason(text: str) -> tuple[str, str]:
    where, _, why = text.rpartition(": ")
    return where, why


def safe_name(name: str) -> str:
    """A file's name made of harmless parts: an object's key could hold anything."""
    parts = [
        # Keep the end of a long part: it holds the rank and the extension.
        _PART.sub("_", part)[-200:]
        for part in PurePosixPath(name).parts
        if part not in ("/", ".", "..")
    ]
    return "/".join(parts[-8:]) or "trace"


def _first(place: TracePlace) -> None:
    # A listing is lazy: its first entry shows that it is permitted.
    next(place.list(Deadline.after(CHECK_S)), None)
