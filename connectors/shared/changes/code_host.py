"""From repositories to evidence, whatever hosts the code: what was rolled out around the incident,
what it carried, and the code that a stack trace names.

Of a repository its deployments count; where it has none, the pipelines that deploy; where it has
none of those, its releases; and where nothing says what was rolled out, what was merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.changes.code_changes import (
    ChangeRows,
    CodeChange,
    CodeCommit,
    CodeComparison,
    DiffBudget,
    FileChange,
    Rollout,
    within,
)
from faultline.connectors.shared.changes.code_lines import (
    SourceFrame,
    SourceLines,
    candidates,
    excerpt,
    touched,
)
from faultline.connectors.shared.changes.code_repository import (
    CodeHostList,
    PipelineRun,
    Repository,
)
from faultline.connectors.shared.contract.base import Collected, Item, Missing, Request
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")

KIND: EvidenceKind = "changes"
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the earliest window: a deploy may take a day to do harm."""
SKEW = timedelta(minutes=1)
"""Clocks of a vendor and of ours may differ so much."""
MOST_REPOSITORIES = 5
MOST_COMPARED, MOST_CHANGES, MOST_LOOKUPS = 4, 30, 10
"""Of one repository: rollouts compared with the one before, changes whose files are read, merges
looked up."""
MOST_LINES = 3
"""Places of a stack trace whose code is brought."""
MOST_LISTED = 20
"""Entries of one item's details."""


@dataclass
class RepositoryReading:
    """What one repository brought so far; a call that fails is a gap, and the others stand."""

    repository: Repository
    window: Window
    rows: ChangeRows
    alert_at: datetime
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    files: dict[str, frozenset[str]] = field(default_factory=dict)
    revision: str | None = None
    """The revision that was in production when the alert came."""

    async def tried(self, what: str, call: Awaitable[T]) -> T | None:
        """The call's answer, or a gap. A credential that is not accepted fails the connector as a
        whole."""
        try:
            return await call
        except ConnectorError as error:
            # A refused credential fails every later call alike: one error says it.
            if error.status == 401:
                raise
            self.gap(what, str(error))
        except FaultlineError as error:
            self.gap(what, str(error))
        return None

    def gap(self, what: str, reason: str) -> None:
        """Record what could not be collected."""
        self.missing.append(Missing(KIND, f"{self.repository.name}: {what}", reason))

    def item(
        self, listing: CodeHostList[T], rows: int, details: dict[str, str] | None = None
    ) -> None:
        """Record what was read, with the first `MOST_LISTED` details."""
        shown = dict(list(details.items())[:MOST_LISTED]) if details else {}
        self.items.append(
            Item(
                KIND,
                listing.query,
                self.window,
                listing.link,
                rows=rows,
                cut=listing.cut,
                details=shown,
            )
        )


async def read_repository(
    repository: Repository, rows: ChangeRows, request: Request
) -> RepositoryReading:
    """Everything of one repository around the incident, its rollouts and changes as rows."""
    scope = request.scope
    window = Window(start=scope.events_from - LOOKBACK, end=scope.incident.end + SKEW)
    reading = RepositoryReading(repository, window, rows, request.alert.started_at)
    # Ask for the branch first: a repository that cannot be read costs one call and one gap.
    branch = await reading.tried("the repository", repository.default_branch())
    if branch is None:
        return reading
    rollouts, runs, releases, merged = await asyncio.gather(
        reading.tried("deployments", repository.rollouts(window)),
        reading.tried("pipelines", repository.runs(window)),
        reading.tried("releases", repository.releases(window)),
        reading.tried("merges", repository.merged(window, branch)),
    )
    _tell_runs(reading, runs)
    _tell_rollouts(reading, rollouts)
    _tell_rollouts(reading, releases)
    chosen = _chosen(reading.window, rollouts, runs, releases)
    # A deploy that failed or is still running has not replaced the code in production.
    in_production = (r.revision for r in chosen if r.reached and r.at <= reading.alert_at)
    reading.revision = next(in_production, None)
    merged_changes = _values(merged)
    changes, between = await _carried(reading, chosen, merged_changes)
    # Nothing says what was rolled out, so what was merged is the best evidence left.
    if not chosen:
        changes = [(change, None) for change in merged_changes]
    if merged is not None:
        # A merge that no rollout carried may still wait; say so instead of blaming it.
        ids = {s for change, _ in changes for s in change.shas}
        waiting = [c for c in merged.values if not c.shas & ids]
        details = {
            short(
                c.id, 60
            ): f"merged {c.at:%Y-%m-%d %H:%M} UTC, not known to be deployed: {c.title}"
            for c in waiting
        }
        reading.item(merged, len(merged.values), details)
    await _add_changes(reading, changes)
    # Changes first: a rollout's row is skipped where a change already stands for it.
    for rollout, comparison in reversed(between):
        reading.rows.add_rollout(rollout, comparison)
    return reading


async def read_code(reading: RepositoryReading, frames: Sequence[SourceFrame]) -> int:
    """The code at these frames, at the revision in production, as items; how many were found."""
    code = 0
    for frame in frames:
        if code == MOST_LINES:
            break
        lines = await reading.tried(f"code at {frame.path}:{frame.line}", _lines_of(reading, frame))
        if lines is not None:
            code += 1
            by = touched([SourceFrame(lines.path, frame.line)], reading.files).get(
                f"{lines.path}:{frame.line}", []
            )
            revision = (
                lines.revision
                if reading.revision
                else "the default branch, for no deployment is known"
            )
            details = {
                "repository": lines.repository,
                "path": lines.path,
                "line": str(lines.line),
                "revision": revision,
                "code": lines.text,
                "changes that touch this file": ", ".join(i[:12] for i in by)
                or "none of those collected",
            }
            query = f"{lines.path}:{lines.line} of {lines.repository} at {lines.revision}"
            reading.items.append(Item(KIND, query, link=lines.link, details=details))
    return code


async def code_at(
    repository: Repository, revision: str, path: str, line: int
) -> SourceLines | None:
    """The lines around `path:line` at a revision; None where the repository has no such file."""
    try:
        content = await repository.content(path, revision)
    except ConnectorError as error:
        if error.status == 404:
            return None
        raise
    link = repository.file_link(path, revision, line)
    return SourceLines(repository.name, revision, path, line, excerpt(content, line), link)


def collected(readings: Sequence[RepositoryReading]) -> Collected:
    """One table, and all items and gaps, of several repositories."""
    rows = ChangeRows(())
    items: list[Item] = []
    missing: list[Missing] = []
    for reading in readings:
        # A change is put together from several answers about its repository.
        table = reading.rows.table()
        items += [item.holding(table) for item in reading.items]
        missing += reading.missing
        for key, row in reading.rows.rows.items():
            # Two repositories may report one change; the first stands, so that it counts once.
            rows.rows.setdefault(key, row)
    return Collected({"changes": rows.table()}, tuple(items), tuple(missing))


def _tell_runs(reading: RepositoryReading, runs: CodeHostList[PipelineRun] | None) -> None:
    if runs is not None:
        failed = [r for r in runs.values if r.failed]
        details = {
            f"{r.at:%Y-%m-%d %H:%M} {short(r.name, 80)}": f"failed at {r.revision[:12]}"
            for r in failed
        }
        reading.item(runs, len(runs.values), details)


def _tell_rollouts(reading: RepositoryReading, listing: CodeHostList[Rollout] | None) -> None:
    if listing is not None:
        details = {
            f"{r.at:%Y-%m-%d %H:%M} {short(r.environment, 60)}": f"{r.title}: {r.state}"
            for r in listing.values
        }
        reading.item(listing, len(listing.values), details)


def _values(listing: CodeHostList[T] | None) -> tuple[T, ...]:
    return listing.values if listing else ()


def _chosen(
    window: Window,
    deployments: CodeHostList[Rollout] | None,
    runs: CodeHostList[PipelineRun] | None,
    releases: CodeHostList[Rollout] | None,
) -> tuple[Rollout, ...]:
    """The rollouts that count, the newest first. Those to production alone, where some are to
    production."""
    deploying = tuple(r.rollout for r in _values(runs) if r.rollout)
    ways = [_values(deployments), deploying, _values(releases)]
    # Take the first source that saw a rollout in the window: mixing them counts a deploy twice.
    recent = (way for way in ways if any(r.at >= window.start for r in way))
    chosen = next(recent, ways[0])
    chosen = tuple(r for r in chosen if r.production) or chosen
    return tuple(sorted(chosen, key=lambda r: r.at, reverse=True))


async def _carried(
    reading: RepositoryReading, chosen: Sequence[Rollout], merged: Sequence[CodeChange]
) -> tuple[list[tuple[CodeChange, Rollout | None]], list[tuple[Rollout, CodeComparison | None]]]:
    """The changes that the rollouts in the window carried; and the rollouts with what lies before
    each."""
    changes: list[tuple[CodeChange, Rollout | None]] = []
    rollouts: list[tuple[Rollout, CodeComparison | None]] = []
    for rollout, listing in await _compared(reading, chosen):
        between = listing.values[0] if listing else None
        rollouts.append((rollout, between))
        if listing is None or between is None:
            continue
        reading.item(listing, len(between.commits))
        # A rollout that failed brought nothing into production.
        if rollout.state != "failed":
            carried_changes = await _changes_of(reading, rollout, between, merged)
            changes += [(change, rollout) for change in carried_changes]
    return changes, rollouts


async def _compared(
    reading: RepositoryReading, chosen: Sequence[Rollout]
) -> list[tuple[Rollout, CodeHostList[CodeComparison] | None]]:
    """The rollouts in the window, each with what lies between it and the one before. A rollout
    that is not compared is a gap."""
    inside = [r for r in chosen if reading.window.start <= r.at <= reading.window.end]
    comparable: list[tuple[Rollout, Rollout]] = []
    first_rollouts: list[Rollout] = []
    for rollout in inside:
        before = _before(rollout, chosen)
        if before is not None:
            comparable.append((rollout, before))
        # A first rollout that failed changed nothing, so it needs no comparison.
        elif rollout.reached:
            first_rollouts.append(rollout)
    pairs = comparable[:MOST_COMPARED]
    answers = await asyncio.gather(
        *(
            reading.tried(
                "what was deployed", reading.repository.compare(before.revision, rollout.revision)
            )
            for rollout, before in pairs
        )
    )
    for rollout in first_rollouts:
        reading.gap(
            f"what {rollout.revision[:12]} carried",
            "no earlier deployment is known to compare it with",
        )
    left_out = len(comparable) - len(pairs)
    if left_out:
        reading.gap(
            "what was deployed", f"{left_out} earlier deployments in the window were not compared"
        )
    compared = {id(r): answer for (r, _), answer in zip(pairs, answers, strict=True)}
    return [(rollout, compared.get(id(rollout))) for rollout in inside]


def _before(rollout: Rollout, rollouts: Sequence[Rollout]) -> Rollout | None:
    """The last rollout to the same environment before this one, of another revision."""
    # Staging gets a revision earlier, so only the same environment tells what was new.
    earlier = (
        r
        for r in rollouts
        if r.at < rollout.at and r.environment == rollout.environment and r.reached
    )
    return next((r for r in earlier if r.revision != rollout.revision), None)


async def _changes_of(
    reading: RepositoryReading,
    rollout: Rollout,
    between: CodeComparison,
    merged: Sequence[CodeChange],
) -> list[CodeChange]:
    """The merges and the commits nobody proposed that lie between two rollouts, the newest
    first."""
    by_sha = {sha: change for change in merged for sha in change.shas}
    code_changes: list[CodeChange] = []
    unknown: list[CodeCommit] = []
    # Commits inside a merged branch are part of its merge, not separate changes.
    for commit in first_parents(between.commits, rollout.revision):
        change = by_sha.get(commit.sha)
        if change is not None:
            code_changes.append(change)
        else:
            unknown.append(commit)
    # Each lookup is one request of the operator's quota, so their number is bounded.
    lookups = await asyncio.gather(
        *(
            reading.tried(f"merge of {c.sha[:12]}", reading.repository.change_of(c))
            for c in unknown[:MOST_LOOKUPS]
        )
    )
    code_changes += [change for change in lookups if change is not None]
    if between.more_commits or len(unknown) > MOST_LOOKUPS:
        left_out = between.more_commits + max(0, len(unknown) - MOST_LOOKUPS)
        reading.gap(
            f"what {rollout.revision[:12]} carried", f"{left_out} more commits were left out"
        )
    # Several commits can lead to one pull request, which is a single change.
    unique = {change.number or change.id: change for change in reversed(code_changes)}
    return sorted(unique.values(), key=lambda c: c.at, reverse=True)


def first_parents(commits: Sequence[CodeCommit], head: str) -> list[CodeCommit]:
    """The line of commits that the branch itself took, newest first; all where the head or the
    parents are unknown."""
    by_sha = {c.sha: c for c in commits}
    at = by_sha.get(head)
    if at is None or not all(c.parents for c in commits):
        return list(commits)[::-1]
    line: list[CodeCommit] = []
    # Bound the walk: hostile parents could form a circle.
    while at is not None and len(line) <= len(commits):
        line.append(at)
        at = by_sha.get(at.parents[0])
    return line


async def _add_changes(
    reading: RepositoryReading, carried_by: Sequence[tuple[CodeChange, Rollout | None]]
) -> None:
    """Each change's row, with its files where they can be read. If several rollouts carried it,
    the first counts."""
    # Latest first: the earliest rollout of a change overwrites the later ones.
    earliest = {
        change.id: (change, rollout)
        for change, rollout in sorted(carried_by, key=_when, reverse=True)
    }
    changes = sorted(earliest.values(), key=_when, reverse=True)
    read = changes[:MOST_CHANGES]
    if len(changes) > MOST_CHANGES:
        reading.gap(
            "files of changes",
            f"the files of {len(changes) - MOST_CHANGES} more changes were not asked for",
        )
    answers = await asyncio.gather(
        *(
            reading.tried(f"files of {change.id[:12]}", reading.repository.files_of(change))
            for change, _ in read
        )
    )
    files = {change.id: answer for (change, _), answer in zip(read, answers, strict=True)}
    # The diff budget is shared by all repositories, so report only what this one used.
    before = (reading.rows.diffs.shortened, reading.rows.diffs.left_out)
    for change, carried in changes:
        file = files.get(change.id)
        change_files = (
            within(change, file.values, None if file.cut else 0) if file else within(change, (), 0)
        )
        reading.files[change.id] = frozenset(f.path for f in change_files.files)
        reading.rows.add_change(change_files, carried)
    if read:
        _tell_files(reading, [f for f in answers if f is not None], before)


def _when(carried: tuple[CodeChange, Rollout | None]) -> tuple[datetime, datetime]:
    change, rollout = carried
    return rollout.at if rollout else change.at, change.at


def _tell_files(
    reading: RepositoryReading, answers: Sequence[CodeHostList[FileChange]], before: tuple[int, int]
) -> None:
    diffs = reading.rows.diffs
    cut = DiffBudget(
        shortened=diffs.shortened - before[0], left_out=diffs.left_out - before[1]
    ).summary()
    cuts = [c for c in (cut, *sorted({a.cut for a in answers if a.cut})) if c]
    for number, answer in enumerate(answers):
        # Say what was cut once, not with each of many items.
        note = "; ".join(cuts) or None if number == 0 else None
        reading.items.append(
            Item(KIND, answer.query, reading.window, answer.link, rows=len(answer.values), cut=note)
        )


async def _lines_of(reading: RepositoryReading, frame: SourceFrame) -> SourceLines | None:
    paths = {path for paths in reading.files.values() for path in paths}
    revision = reading.revision or "HEAD"
    for path in candidates(frame.path, paths):
        lines = await code_at(reading.repository, revision, path, frame.line)
        if lines is not None:
            return lines
    return None
