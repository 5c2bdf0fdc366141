"""The host's own store of alerts that the database has not taken yet.

A directory of files that are only appended to. A process writes its own file and holds flock on it
while it lives. What a dead process left is taken over by a living one. A file goes once the
database has all its alerts. What was moved is not written down: moving it again is recognised by
the delivery's id.

The lock on what is known of the files is held for moments only. The lock on the disk may be held
for as long as the disk hangs, so nothing that must answer takes it.
"""

from __future__ import annotations

import fcntl
import heapq
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.bot.intake.spool_records import TakenAlert, decode, encode

SUFFIX, UNFINISHED, DAMAGED = ".spool", ".new", ".damaged"
REFUSED = "refused.alerts"
"""Alerts that the database refuses for what they hold, as lines of `spool_records`."""
REFUSED_BYTES = 16 * 2**20
"""Then another file is begun, and only the one before it is kept."""
SEGMENT_BYTES = 4 * 2**20
"""A file that is longer gets no more alerts, so that room is freed while alerts keep coming."""
FORGOTTEN_S = 60.0
"""A file that was being made takes milliseconds; one this old belongs to a dead process."""

NEVER = datetime.min.replace(tzinfo=UTC)

log = logging.getLogger("faultline.spool")


class SpoolError(FaultlineError):
    """The spool takes no alert: it is full, or the disk does not take it."""


@dataclass
class _Segment:
    """One file. `left` counts the alerts in it that were not moved."""

    path: Path
    descriptor: int
    size: int = 0
    left: int = 0
    damaged: bool = False


@dataclass(frozen=True)
class _Line:
    """An alert as it is written, and what decides about its turn."""

    text: bytes
    taken_at: datetime
    fingerprint: str
    priority: int

    @classmethod
    def of(cls, taken: TakenAlert, text: bytes | None = None) -> _Line:
        """Raises ValueError for an alert that cannot be written."""
        fingerprint = taken.arrival.alert.fingerprint
        return cls(text or encode(taken), taken.taken_at, fingerprint, taken.priority)


@dataclass(frozen=True)
class _Entry:
    number: int
    segment: _Segment
    offset: int
    length: int
    taken_at: datetime
    fingerprint: str
    priority: int


@dataclass(frozen=True)
class SpooledAlert:
    """An alert in the spool."""

    taken: TakenAlert
    entry: _Entry


@dataclass(frozen=True)
class SpoolFigures:
    """What lies in the spool. `problem` is why the last alert could not be written, if it could
    not."""

    alerts: int = 0
    bytes: int = 0
    oldest_at: datetime | None = None
    refused: int = 0
    """Alerts that the database refused for what they hold; they stay in a file beside."""
    problem: str = ""


@dataclass
class Spool:
    """The spool of one process, and what it took over. Raises SpoolError from `append` alone."""

    directory: Path
    max_alerts: int = 10_000
    max_bytes: int = 64 * 2**20
    _entries: dict[int, _Entry] = field(default_factory=dict)
    _segments: list[_Segment] = field(default_factory=list)
    _active: _Segment | None = None
    _number: int = 0
    _latest: datetime = NEVER
    _problem: str = ""
    _refused: int | None = None
    _state_lock: threading.Lock = field(default_factory=threading.Lock)
    _disk: threading.Lock = field(default_factory=threading.Lock)

    def figures(self) -> SpoolFigures:
        """Never waits for the disk."""
        with self._state_lock:
            oldest = min((entry.taken_at for entry in self._entries.values()), default=None)
            size = sum(segment.size for segment in self._segments)
            problem, refused = self._problem, self._refused or 0
            return SpoolFigures(len(self._entries), size, oldest, refused, problem)

    def filled(self) -> float:
        """The share of its bound, of alerts or of bytes, that is used. Never waits for the disk."""
        figures = self.figures()
        alerts = figures.alerts / self.max_alerts if self.max_alerts else 1.0
        return max(alerts, figures.bytes / self.max_bytes if self.max_bytes else 1.0)

    def is_empty(self) -> bool:
        """Whether nothing waits. Never waits for the disk."""
        return not self._entries

    def append(self, alerts: Sequence[TakenAlert]) -> list[SpoolError | None]:
        """Keep alerts on the disk: one write and one fsync for all. Says of each why it was not
        kept, or None."""
        outcomes: list[SpoolError | None] = []
        lines: list[_Line] = []
        with self._disk:
            figures = self.figures()
            size, is_full = figures.bytes, False
            for alert in alerts:
                try:
                    line = _Line.of(alert)
                except ValueError as error:  # text that is no text: the database refuses it too
                    outcomes.append(SpoolError(f"it cannot be written ({type(error).__name__})"))
                    continue
                size += len(line.text)
                if figures.alerts + len(lines) >= self.max_alerts or size > self.max_bytes:
                    size -= len(line.text)
                    is_full = True
                    outcomes.append(SpoolError("the spool is full"))
                else:
                    lines.append(line)
                    outcomes.append(None)
            problem = self._keep(lines)
        if problem:
            outcomes = [outcome or SpoolError(problem) for outcome in outcomes]
        self._note_problem(problem or ("it is full" if is_full and not lines else ""))
        return outcomes

    def _keep(self, lines: Sequence[_Line]) -> str:
        """Write, in the order of taking; why that failed, or ""."""
        if not lines:
            return ""
        try:
            segment = self._writable()
            offset = segment.size
            _write_all(segment.descriptor, b"".join(line.text for line in lines))
            os.fsync(segment.descriptor)
        except OSError as error:
            self._give_up_on_active()
            return f"it cannot be written ({error.strerror or error})"
        with self._state_lock:
            for line in lines:
                # A clock that is set back must not turn the order round.
                self._latest = max(line.taken_at, self._latest)
                self._enter(segment, offset, line, self._latest)
                offset += len(line.text)
            segment.size = offset
        return ""

    def _writable(self) -> _Segment:
        if self._active is not None and self._active.size >= SEGMENT_BYTES:
            self._active = None
        if self._active is None:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A file that is locked before anybody sees it under its name.
            directory = self.directory
            name = f"{time.time_ns()}-{os.getpid()}"
            made, path = directory / f"{name}{UNFINISHED}", directory / f"{name}{SUFFIX}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(made, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                made.rename(path)
                _sync_directory(directory)
            except OSError:
                # `adopt` removes the unfinished file later.
                os.close(descriptor)
                raise
            self._active = _Segment(path, descriptor)
            with self._state_lock:
                self._segments.append(self._active)
        return self._active

    def _give_up_on_active(self) -> None:
        """What was written in part, or may not be on the disk, was not acknowledged: cut it off,
        and append to this file no more."""
        segment, self._active = self._active, None
        if segment is None:
            return
        try:
            os.ftruncate(segment.descriptor, segment.size)
        except OSError as error:
            log.error("cannot cut %s (%s)", segment.path.name, error.strerror)
        self._release(segment)

    def _enter(self, segment: _Segment, offset: int, line: _Line, at: datetime) -> None:
        self._number += 1
        self._entries[self._number] = _Entry(
            self._number, segment, offset, len(line.text), at, line.fingerprint, line.priority
        )
        segment.left += 1

    def next(self, most: int) -> list[SpooledAlert]:
        """The alerts to move next: the most urgent first, those of one alert in their order.

        An alert is as urgent as the most urgent one of the same fingerprint, before or after it.
        """
        with self._state_lock:
            urgent: dict[str, int] = {}
            for entry in self._entries.values():
                priority = urgent.get(entry.fingerprint, entry.priority)
                urgent[entry.fingerprint] = min(priority, entry.priority)
            chosen = heapq.nsmallest(
                most,
                self._entries.values(),
                key=lambda entry: (urgent[entry.fingerprint], entry.taken_at, entry.number),
            )
        spooled_alerts = []
        for entry in chosen:
            line = os.pread(entry.segment.descriptor, entry.length, entry.offset)
            taken = decode(line)
            if taken is None:
                self._lose(entry)
            else:
                spooled_alerts.append(SpooledAlert(taken, entry))
        return spooled_alerts

    def _lose(self, entry: _Entry) -> None:
        """The disk gives back something else than it took."""
        log.error("an alert in %s is damaged and cannot be read", entry.segment.path.name)
        entry.segment.damaged = True
        self._forget([entry])

    def moved(self, alerts: Iterable[SpooledAlert]) -> None:
        """The database has them. Files that hold nothing else go."""
        self._forget(alert.entry for alert in alerts)

    def refused(self, alert: SpooledAlert) -> None:
        """The database refuses it for what it holds: it is kept in a file beside, for a person.
        Raises OSError."""
        path = self.directory / REFUSED
        if make_room_for_refused(path):
            self._refused = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write_all(descriptor, encode(alert.taken))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._refused = (self._refused or 0) + 1
        # Only now: until the other file is on the disk, the spool keeps the alert.
        self._forget([alert.entry])

    def _forget(self, entries: Iterable[_Entry]) -> None:
        empty: dict[int, _Segment] = {}
        with self._state_lock:
            for entry in entries:
                if self._entries.pop(entry.number, None) is not None:
                    entry.segment.left -= 1
                    if entry.segment.left == 0:
                        empty[id(entry.segment)] = entry.segment
        # While somebody appends, the file stays for that; it goes when that is moved.
        if empty and self._disk.acquire(blocking=False):
            try:
                for segment in list(self._segments):
                    if segment.left == 0:
                        self._release(segment)
            finally:
                self._disk.release()

    def _release(self, segment: _Segment) -> None:
        """Forget a file, and remove it where nothing in it is left. Called with the disk's lock."""
        if segment is self._active:
            self._active = None
        if segment.left:
            return
        with self._state_lock:
            if segment in self._segments:
                self._segments.remove(segment)
        try:
            if segment.damaged:
                segment.path.rename(segment.path.with_suffix(DAMAGED))
            else:
                segment.path.unlink(missing_ok=True)
        except OSError as error:
            # Its alerts would be moved again, and recognised.
            log.warning("cannot remove %s (%s)", segment.path.name, error.strerror)
        os.close(segment.descriptor)

    def adopt(self) -> int:
        """Take over the files of processes that ended; how many alerts they hold. Raises
        OSError."""
        if not self.directory.is_dir():
            return 0
        if self._refused is None:
            self._refused = count_refused(self.directory)
        mine = {segment.path for segment in self._segments}
        count = 0
        for path in sorted(self.directory.glob(f"*{SUFFIX}")):
            if path not in mine:
                count += self._adopt(path)
        for path in self.directory.glob(f"*{UNFINISHED}"):
            if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                path.unlink(missing_ok=True)
        return count

    def _adopt(self, path: Path) -> int:
        descriptor = _open_locked(path)
        if descriptor is None:
            return 0
        segment, latest = _Segment(path, descriptor), NEVER
        lines = os.pread(descriptor, os.fstat(descriptor).st_size, 0).splitlines(keepends=True)
        for number, line in enumerate(lines):
            taken = decode(line)
            if taken is not None:
                # As in `_keep`, a clock that was set back must not change the order.
                latest = max(latest, taken.taken_at)
                with self._state_lock:
                    self._enter(segment, segment.size, _Line.of(taken, line), latest)
            elif number == len(lines) - 1:
                log.warning("%s ends in a torn alert that was not acknowledged", path.name)
            else:
                log.error("an alert in %s is damaged and cannot be read", path.name)
                segment.damaged = True
            segment.size += len(line)
        with self._state_lock:
            self._segments.append(segment)
        if segment.left == 0:
            with self._disk:
                self._release(segment)
        return segment.left

    def close(self) -> None:
        """Give the files up, with what is in them, so that another process takes them over."""
        with self._state_lock:
            segments, self._segments, self._active = self._segments, [], None
            self._entries.clear()
        for segment in segments:
            os.close(segment.descriptor)

    def _note_problem(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.error("the spool takes no alerts: %s", problem)
        elif self._problem and not problem:
            log.warning("the spool takes alerts again")
        self._problem = problem


def figures_of(directory: Path) -> SpoolFigures:
    """What lies in a directory, read by somebody else than its owner. Raises OSError."""
    alerts = size = 0
    oldest: datetime | None = None
    for path in sorted(directory.glob(f"*{SUFFIX}")) if directory.is_dir() else ():
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # it was moved meanwhile
            continue
        for line in content.splitlines(keepends=True):
            taken = decode(line)
            if taken is not None:
                alerts += 1
                oldest = min(oldest or taken.taken_at, taken.taken_at)
        size += len(content)
    return SpoolFigures(alerts, size, oldest, count_refused(directory))


def make_room_for_refused(path: Path) -> bool:
    """Put the file aside where it is full; whether that was needed. Raises OSError."""
    if not path.exists() or path.stat().st_size < REFUSED_BYTES:
        return False
    path.replace(path.with_suffix(".older"))
    return True


def count_refused(directory: Path) -> int:
    """Alerts that the database refused. Raises OSError."""
    try:
        return (directory / REFUSED).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _open_locked(path: Path) -> int | None:
    """A file that no living process holds; None for one that is held, or is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been removed between the two.
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _sync_directory(directory: Path) -> None:
    """A new file's name must survive the machine as well as its content."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    # `os.write` may write less than it is given.
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
