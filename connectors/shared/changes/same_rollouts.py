"""Changes that a cluster saw and somebody reported too: one change, told twice.

A deploy tool, a code host or `POST /changes` says who deployed what and why; Kubernetes says when
it reached production and what differs. Of both one row is made, so that an answer does not hold
two suspects against each other, and so that a service does not seem to be deployed twice as often.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from faultline.analysis.case.tables import CHANGES

ROLLS_OUT_FOR = timedelta(minutes=10)
"""A tool that waits for its rollout reports it once it is done, and Kubernetes gives a rollout up
after that long (`progressDeadlineSeconds`, 600 by default)."""
SAME_VERSION_WITHIN = timedelta(hours=1)
"""A pipeline announces a deploy when it begins, builds and tests, and rolls out last. A version
that was rolled out twice within an hour is one change to who looks for a cause (our choice)."""
AT_ONCE = timedelta(minutes=3)
"""Who scales a workload or writes a ConfigMap reports it at once; a scrape shows it a minute
later."""
JOINED = ("deploy", "restart", "scale", "config")
SHORT_HASH = 7
"""Git's own abbreviation."""
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:[-+][\w.]{1,40})?)(?![\w.]*\d)")
# Demand a letter and a digit: neither a word such as "defaced" nor a number is a hash.
_HASH = re.compile(r"(?<![0-9a-z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![0-9a-z])")
_IMAGE = re.compile(r"image (?:\S+ -> )?(\S+?)(?=[,; ]|$)")
_NEW_IMAGE = re.compile(r"^\+\S+ image: (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class NamedVersions:
    """The versions that a change names: numbers, and hashes as Git abbreviates them."""

    numbers: frozenset[str]
    hashes: frozenset[str]

    @classmethod
    def in_text(cls, text: str) -> NamedVersions:
        """Those of a title, an id or images."""
        lowered = text[:1_000].lower()
        # Tools abbreviate to different lengths, so compare the shortest common form.
        hashes = frozenset(match[:SHORT_HASH] for match in _HASH.findall(lowered))
        return cls(frozenset(_VERSION.findall(lowered)), hashes)

    def agrees(self, other: NamedVersions) -> bool | None:
        """Whether both mean the same; None where they name nothing that can be compared. A commit
        and the number of its release are two names, so neither contradicts the other."""
        if self.numbers & other.numbers or self.hashes & other.hashes:
            return True
        both_number = bool(self.numbers and other.numbers)
        both_hash = bool(self.hashes and other.hashes)
        return False if both_number or both_hash else None


@dataclass
class _Deploy:
    """A row of a deploy, and where it is a rollout, the reports about it."""

    row: dict[str, Any]
    versions: NamedVersions
    reports: list[_Deploy] = field(default_factory=list)

    @property
    def at(self) -> datetime:
        at = self.row["time"]
        assert isinstance(at, datetime)
        return at

    def is_about(self, rollout: _Deploy) -> bool:
        """Whether this report is about that rollout, and no other version than those that are
        already known of it."""
        if self.row["kind"] != "deploy":
            return abs(self.at - rollout.at) <= AT_ONCE
        answers = [self.versions.agrees(report.versions) for report in (rollout, *rollout.reports)]
        # A different version is a different deploy, however close in time.
        if False in answers:
            return False
        # A shared version is strong evidence, so it may lie further apart in time.
        within = SAME_VERSION_WITHIN if True in answers else ROLLS_OUT_FOR
        return abs(self.at - rollout.at) <= within


def with_joined_rollouts(
    cluster: pl.DataFrame, change_tables: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """The table of changes of a cluster's rollouts and of everything else that tells of changes.

    A rollout that was reported keeps the time at which the cluster began it and what differs, and
    takes the id, title, author and link of the report.
    """
    # An event shows both numbers of a scaling, and a later round shows who made it.
    is_scale = pl.col("kind").eq_missing("scale")
    scalings = cluster.filter(is_scale).sort("after", nulls_last=True, maintain_order=True)
    scalings = scalings.unique(["service", "id"], keep="first", maintain_order=True)
    cluster = pl.concat([cluster.filter(~is_scale), scalings])
    frame = pl.concat(change_tables) if change_tables else cluster.clear()
    rollouts: dict[tuple[str, str], list[_Deploy]] = defaultdict(list)
    for row in _deploys(cluster):
        # Metrics alone show a deploy as a restart; who reports it knows better.
        kind = "deploy" if row["kind"] == "restart" else row["kind"]
        rollouts[row["service"], kind].append(_Deploy(row, _rolled_out(row)))
    # Oldest first, so that the first report gives the row its id and title in every run.
    for row in _deploys(frame.sort("time")):
        named = NamedVersions.in_text(f"{row['id']} {row['title'] or ''}")
        _give_to_nearest(_Deploy(row, named), rollouts.get((row["service"], row["kind"]), ()))
    gone: set[tuple[Any, ...]] = set()
    rows = []
    for deploys in rollouts.values():
        for rollout in deploys:
            if rollout.reports:
                gone.update(_key(report.row) for report in (rollout, *rollout.reports))
                rows.append(_joined(rollout))
    every = pl.concat([frame, cluster])
    if not rows:
        return every
    remaining_rows = [row for row in every.to_dicts() if _key(row) not in gone]
    return pl.DataFrame([*remaining_rows, *rows], schema=CHANGES.columns)


def _deploys(table: pl.DataFrame) -> list[dict[str, Any]]:
    return table.filter(pl.col("kind").is_in(JOINED), pl.col("service").is_not_null()).to_dicts()


def without_observed(measured: pl.DataFrame, clusters: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The changes that metrics show, of the services of which the cluster itself tells nothing."""
    observed = [service for cluster in clusters for service in cluster["service"].drop_nulls()]
    return measured.filter(pl.col("service").is_in(observed).not_())


def _give_to_nearest(report: _Deploy, rollouts: Sequence[_Deploy]) -> None:
    same = [rollout for rollout in rollouts if report.is_about(rollout)]
    if same:
        nearest = min(same, key=lambda rollout: abs(rollout.at - report.at))
        nearest.reports.append(report)


def _rolled_out(row: dict[str, Any]) -> NamedVersions:
    """The versions of the images that a rollout brings."""
    images = _NEW_IMAGE.findall(row["diff"] or "") or _IMAGE.findall(row["title"] or "")
    # A registry's port or an organisation's name must not be taken for a version.
    tags = [image.rpartition("/")[2] for image in images]
    return NamedVersions.in_text(" ".join(tags))


def _joined(rollout: _Deploy) -> dict[str, Any]:
    first = rollout.reports[0].row
    row = rollout.row
    diffs = [change["diff"] for change in (row, first) if change["diff"]]
    title = first["title"] or first["id"]
    # Of a rollout the cluster says what differs.
    if row["kind"] in ("deploy", "restart"):
        title = f"{title} ({row['title']})"
    return {
        **first,
        "time": row["time"],
        "title": title,
        "link": first["link"] or row["link"],
        "before": row["before"] or first["before"],
        "after": row["after"] or first["after"],
        "restored_by": row["restored_by"] or first["restored_by"],
        "diff": "\n".join(diffs) or None,
    }


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["service"], row["kind"], row["id"], row["time"]
