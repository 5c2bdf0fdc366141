"""Rows of the case's tables from Sentry's answers: logs, metrics and changes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import polars as pl

from faultline.analysis.case.tables import CHANGES, LOGS, METRICS
from faultline.connectors.shared.rows.collection_builder import rows_table
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.sentry import ERROR_RATE
from faultline.connectors.vendors.sentry.answers import (
    LINE,
    CommitFile,
    Deploy,
    ListedEvent,
    SentryApiEvent,
    SentryApiIssue,
    SentryCommit,
    SentryRelease,
    SeriesAnswer,
    dict_of,
    folded,
    time_of,
)

PER_MINUTE = "1/min"
MOST_FILES, MOST_MESSAGES = 100, 5
MOST_MS = 4e12
"""No time lies beyond the year 2096."""
_HEX_ID = re.compile(r"[0-9a-f]{32}")


def log_rows(
    issue: SentryApiIssue,
    event: SentryApiEvent | None,
    listed: Iterable[ListedEvent],
    service: str,
    url: str,
) -> list[tuple[Any, ...]]:
    """One row of the logs table for each event; the frames are those of the issue's latest
    event."""
    rows = []
    for listed_event in listed:
        at = time_of(listed_event.dateCreated)
        if at is None:
            continue
        trace = listed_event.tag("trace")
        values = {
            "issue": issue.name,
            "issue_id": issue.id,
            "event_id": short(listed_event.eventID, 40),
            "url": url,
        }
        values |= {
            key: value
            for key in ("release", "environment", "transaction", "server_name")
            if (value := listed_event.tag(key))
        }
        level = (listed_event.tag("level") or issue.level or "error").upper()
        message = folded(listed_event.title or issue.title, event)
        rows.append(
            (
                at,
                service,
                message,
                level,
                # A tag may hold any text.
                trace if _HEX_ID.fullmatch(trace) else None,
                json.dumps(values),
            )
        )
    return rows


def logs_table(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """The rows as the logs table."""
    return pl.DataFrame(list(rows), schema=LOGS.columns, orient="row")


def metrics_table(
    answer: SeriesAnswer, service: str, labels: Mapping[str, str] = MappingProxyType({})
) -> pl.DataFrame:
    """Errors per minute; buckets that are not complete yet are left out. Sentry may choose other
    buckets than asked."""
    points = answer.timeSeries[0].values if answer.timeSeries else []
    gaps = [b.timestamp - a.timestamp for a, b in pairwise(points) if b.timestamp > a.timestamp]
    # The smallest gap is the bucket, because buckets may be missing in between.
    minutes = min(gaps) / 60_000 if gaps else 1.0
    encoded_labels = json.dumps(dict(labels)) if labels else None
    rows = [
        (
            datetime.fromtimestamp(p.timestamp / 1000, UTC),
            service,
            ERROR_RATE,
            p.value / minutes,
            PER_MINUTE,
            encoded_labels,
        )
        for p in points
        # A bucket that is not over would look like a drop.
        if not p.incomplete
        and p.value is not None
        and math.isfinite(p.value)
        and 0 <= p.timestamp < MOST_MS
    ]
    return pl.DataFrame(rows, schema=METRICS.columns, orient="row")


def released_at(release: SentryRelease) -> datetime | None:
    """When it was last deployed, else released, else made."""
    deployed = dict_of(release.lastDeploy)
    return next(
        (
            t
            for v in (deployed.get("dateFinished"), release.dateReleased, release.dateCreated)
            if (t := time_of(v))
        ),
        None,
    )


def release_rows(
    release: SentryRelease,
    deploys: Sequence[Deploy],
    commits: Sequence[SentryCommit],
    files: Sequence[CommitFile],
    service: str,
    link: str,
) -> list[tuple[Any, ...]]:
    """A change for each deploy, one for the release where no deploys are known."""
    messages = [m for c in commits[:MOST_MESSAGES] if (m := first_line(c.message))]
    name = short(release.shortVersion or release.version, 80)
    paths = names_of(files)
    author = next((c.by for c in commits if c.by), None)
    moments = [
        (at, d.environment)
        for d in deploys
        if (at := time_of(d.dateFinished) or time_of(d.dateStarted))
    ]
    if not moments and (at := released_at(release)) is not None:
        moments = [(at, None)]
    rows = []
    for at, environment in moments:
        title = f"Release {name}{f' to {short(environment, 40)}' if environment else ''}"
        title += f": {'; '.join(messages)}" if messages else ""
        rows.append(
            (at, service, "deploy", short(release.version, 200), title, author, link, paths, None)
        )
    return rows


def commit_row(
    commit: SentryCommit,
    author: Any,
    files: Sequence[CommitFile],
    at: datetime,
    service: str,
    link: str,
) -> tuple[Any, ...]:
    """A commit that Sentry suspects, at the time when its release was deployed, with the files that
    it changed."""
    # Only its message tells which commit changed a file.
    matching_files = [f for f in files if f.commitMessage and f.commitMessage == commit.message]
    by = commit.by or SentryCommit(author=author).by
    return (
        at,
        service,
        "deploy",
        short(commit.id, 80),
        first_line(commit.message),
        by,
        link,
        names_of(matching_files),
        None,
    )


def changes_table(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """The rows as the changes table, each once."""
    return rows_table(dict.fromkeys(rows), CHANGES.columns)


def names_of(files: Sequence[CommitFile]) -> str | None:
    """The paths as a JSON list, at most 100."""
    paths = list(dict.fromkeys(short(f.filename, 200) for f in files if f.filename))[:MOST_FILES]
    return json.dumps(paths) if paths else None


def first_line(message: str | None) -> str:
    """A commit message's first line."""
    return short((message or "").strip().split("\n", 1)[0], LINE)
