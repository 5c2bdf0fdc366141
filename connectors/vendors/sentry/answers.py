"""Sentry's answers, and what is read from an event: its folded stack trace, breadcrumbs, tags.

Fields are those of Sentry's API v0 (its published OpenAPI specification) and, for `entries`, of the
event payload (develop.sentry.dev, "Event Payloads"). All text in them is hostile: what is kept is
printable, on one line and short.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from faultline.connectors.shared.vendor_text import short

VENDOR = "sentry"
FOLDED_FRAMES = 5
"""Frames in a log line: analysis tells lines apart by their first 400 characters
(analysis/logs/lines.py)."""
MOST_FRAMES, MOST_BREADCRUMBS, MOST_TAGS = 20, 15, 20
LONG, LINE = 300, 160


class SentryApiProject(msgspec.Struct):
    """The project of an issue."""

    slug: str = ""


class SentryApiIssue(msgspec.Struct):
    """One issue of a list, or the issue itself. `count` is text; in a list it is that of the window
    that was asked (getsentry/sentry, StreamGroupSerializerSnuba: seen stats from `start` to `end`),
    of the issue itself its whole."""

    id: str
    title: str = ""
    shortId: str | None = None
    culprit: str | None = None
    level: str | None = None
    status: str | None = None
    substatus: str | None = None
    issueCategory: str | None = None
    count: Any = 0
    firstSeen: str | None = None
    lastSeen: str | None = None
    project: SentryApiProject | None = None
    firstRelease: Any = None

    @property
    def events(self) -> int:
        """Events in the window that was asked; 0 where that is no number."""
        text = str(self.count)
        # int() must not meet a hostile text of thousands of digits.
        return int(text[:12]) if text.isascii() and text.isdigit() else 0

    @property
    def name(self) -> str:
        """How a human calls it: FRONT-END-9."""
        return short(self.shortId or self.id, 60)


class SentryTag(msgspec.Struct):
    """One tag of an event."""

    key: str | None = None
    value: str | None = None


class ListedEvent(msgspec.Struct):
    """One event of an issue's list."""

    dateCreated: str | None = None
    eventID: str = ""
    title: str = ""
    tags: list[SentryTag] = msgspec.field(default_factory=list)

    def tag(self, key: str) -> str:
        """The value of a tag, "" without it."""
        for tag in self.tags:
            if tag.key == key:
                return short(tag.value or "", 120)
        return ""


class SentryApiEvent(msgspec.Struct):
    """An issue's latest event. `entries` hold the exception, breadcrumbs and message."""

    eventID: str = ""
    title: str = ""
    culprit: str | None = None
    location: str | None = None
    dateCreated: str | None = None
    entries: list[Any] = msgspec.field(default_factory=list)
    tags: list[SentryTag] = msgspec.field(default_factory=list)
    release: Any = None

    @property
    def version(self) -> str | None:
        """The release that sent it."""
        version = self.release.get("version") if isinstance(self.release, dict) else None
        return version if isinstance(version, str) and version else None


class Point(msgspec.Struct):
    """One bucket of a series; `timestamp` is in ms since 1970."""

    timestamp: float
    value: float | None = None
    incomplete: bool = False


class SentrySeries(msgspec.Struct):
    """One series."""

    values: list[Point] = msgspec.field(default_factory=list)


class SeriesAnswer(msgspec.Struct):
    """`events-timeseries`."""

    timeSeries: list[SentrySeries]


class SentryRelease(msgspec.Struct):
    """One release of a project."""

    version: str
    shortVersion: str | None = None
    dateReleased: str | None = None
    dateCreated: str | None = None
    commitCount: int | None = None
    lastDeploy: Any = None


class Deploy(msgspec.Struct):
    """One deploy of a release."""

    environment: str | None = None
    dateFinished: str | None = None
    dateStarted: str | None = None
    name: str | None = None


class SentryCommit(msgspec.Struct):
    """One commit of a release."""

    id: str = ""
    message: str | None = None
    dateCreated: str | None = None
    author: Any = None

    @property
    def by(self) -> str | None:
        """The author's name, else the address."""
        author = self.author if isinstance(self.author, dict) else {}
        name = author.get("name") or author.get("email")
        return short(name, 80) if isinstance(name, str) and name else None


class CommitFile(msgspec.Struct):
    """One file that a release's commits changed."""

    filename: str = ""
    commitMessage: str | None = None


class Committer(msgspec.Struct):
    """An author with the commits that Sentry suspects of an event."""

    author: Any = None
    commits: list[SentryCommit] = msgspec.field(default_factory=list)


class CommittersAnswer(msgspec.Struct):
    """`events/{id}/committers`."""

    committers: list[Committer] = msgspec.field(default_factory=list)


def time_of(text: Any) -> datetime | None:
    """A time in UTC from ISO 8601 (without zone: UTC), between 2000 and 2100; None for anything
    else."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not 2000 <= at.year < 2100:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def frames_of(event: SentryApiEvent) -> list[str]:
    """`function (file:line)` of the exception's frames: in-app frames first, the innermost of each
    first."""
    # Sentry writes the innermost frame last.
    innermost_first = list(reversed(_frames(event)))
    app_frames = [frame for frame in innermost_first if frame.get("inApp")]
    library_frames = [frame for frame in innermost_first if not frame.get("inApp")]
    return [_frame(frame) for frame in (app_frames + library_frames)[:MOST_FRAMES]]


def _frames(event: SentryApiEvent) -> list[dict[str, Any]]:
    """The frames of the last exception that has any: of a chain, the one that was raised last."""
    values = _dicts(_entry(event, "exception").get("values"))
    stacks = [dict_of(value.get("stacktrace")) for value in values]
    # An event without an exception may carry a stack trace by itself.
    for stack in reversed(stacks or [_entry(event, "stacktrace")]):
        frames = _dicts(stack.get("frames"))
        if frames:
            return frames
    return []


def _frame(frame: Mapping[str, Any]) -> str:
    function = short(_text(frame.get("function")) or "?", 60)
    # Which of them is filled depends on the language.
    names = [_text(frame.get(key)) for key in ("filename", "module", "absPath")]
    where = short(next(filter(None, names), "?"), 90)
    line = frame.get("lineNo")
    if isinstance(line, int) and not isinstance(line, bool):
        where += f":{line}"
    return f"{function} ({where})"


def breadcrumbs_of(event: SentryApiEvent) -> list[str]:
    """The last steps before the event, oldest first: time, category, level and message."""
    crumbs = _dicts(_entry(event, "breadcrumbs").get("values"))
    return [_breadcrumb(crumb) for crumb in crumbs[-MOST_BREADCRUMBS:]]


def _breadcrumb(crumb: Mapping[str, Any]) -> str:
    parts = [_text(crumb.get(key)) for key in ("timestamp", "category", "level", "message")]
    data = dict_of(crumb.get("data"))
    # What a breadcrumb of an HTTP request says instead of a message.
    for key in ("method", "url", "status_code"):
        if isinstance(data.get(key), (str, int)):
            parts.append(str(data[key]))
    return short(" ".join(part for part in parts if part), LONG)


def details_of(issue: SentryApiIssue, event: SentryApiEvent | None) -> dict[str, str]:
    """What an engineer would look at first: the stack trace, the breadcrumbs, the tags."""
    values: dict[str, str | None] = {
        "issue": issue.name,
        "title": issue.title,
        "culprit": issue.culprit,
        "level": issue.level,
        "status": " ".join(filter(None, (issue.status, issue.substatus))),
        "first seen": issue.firstSeen,
    }
    if event is not None:
        # Tags of users name people.
        tags = [t for t in event.tags if not (t.key or "").startswith("user")]
        values |= {"latest event": event.eventID, "release": event.version}
        values |= {f"frame {n}": text for n, text in enumerate(frames_of(event), start=1)}
        values |= {f"breadcrumb {n}": text for n, text in enumerate(breadcrumbs_of(event), start=1)}
        values |= {f"tag {short(t.key or '', 40)}": t.value for t in tags[:MOST_TAGS]}
    return {name: short(value, LONG) for name, value in values.items() if value}


def folded(title: str, event: SentryApiEvent | None) -> str:
    """One line: the title, then its frames, the innermost of one's own code first."""
    frames = frames_of(event)[:FOLDED_FRAMES] if event is not None else []
    head = short(title, LINE)
    return f"{head} at {', '.join(frames)}" if frames else head


def _entry(event: SentryApiEvent, kind: str) -> dict[str, Any]:
    for entry in event.entries:
        if isinstance(entry, dict) and entry.get("type") == kind:
            return dict_of(entry.get("data"))
    return {}


def dict_of(value: Any) -> dict[str, Any]:
    """The object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, whatever else is in it."""
    return (
        [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
