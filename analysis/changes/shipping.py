"""Changes as they reached production: a merge travels with a deploy, a flag or a release may be
taken back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.changes.text import ChangeText, read_change_text, touches
from faultline.analysis.changes.versions import UNKNOWN, Step, step_in
from faultline.analysis.wording.phrases import plain

RIDES_FOR = timedelta(hours=24)
"""A merge that no deploy of its service carried for a day is not waited for any longer."""
MAX_ROWS = 5_000
"""Rows that are read, the latest first."""
SHORT_HASH = 7
"""Git's own abbreviation."""
MAX_STEPS = 20
_HASH = re.compile(r"\b[0-9a-fA-F]{7,40}\b")
_STEP = re.compile(
    r"^\s*(?:\S+(?: in (?P<where>\S.{0,60}?))?:\s*)?(?P<before>[\w.%-]{1,40})"
    r"\s*(?:->|→|=>|\bto\b)\s*(?P<after>[\w.%-]{1,40})\s*$"
)
"""`on -> off`, also with the name of what was set and of the environment before it."""
_REVERT = re.compile(
    r"\b(revert\w*|roll(ed|ing|s)?[ -]?back|rollback|back to an earlier|undo|undone)\b",
    re.IGNORECASE,
)
_AUTOSCALED = re.compile(r"autoscal|\bhpa\b|\bkeda\b|cluster-autoscaler|karpenter", re.IGNORECASE)


@dataclass(frozen=True)
class Shipped:
    """A change as it reached production: `time` is its deploy's where it travelled with one."""

    id: str
    kind: str
    service: str | None
    time: datetime
    text: ChangeText
    link: str | None = None
    author: str = ""
    rides: bool = False
    """It is taken to have travelled with a deploy that does not name it, and it names no
    service."""
    step: Step = UNKNOWN
    restored_by: str = ""
    """What writes the new state back where somebody undoes it by hand."""

    @property
    def label(self) -> str:
        """Short name: the first 12 characters of a hash, a flag's name as it is."""
        is_hash = len(self.id) >= 32 and self.id.isalnum()
        return plain(self.id[:12] if is_hash else self.id, 60)

    @property
    def goes_back(self) -> bool:
        """Whether it says that it takes another change back."""
        return _REVERT.search(self.text.title) is not None

    @property
    def by_autoscaler(self) -> bool:
        """Whether no person or pipeline decided it."""
        if self.kind != "scale":
            return False
        return _AUTOSCALED.search(f"{self.author} {self.text.title}") is not None


def shipped_changes(
    case: Case,
    suspect: str | None = None,
    services: Collection[str] = (),
    until: datetime | None = None,
) -> list[Shipped]:
    """The changes table as shipped changes in time order; a deploy takes over the text of the merge
    it names.

    A merge that touches none of the services travels with the next deploy of the `suspect`, as code
    that all share. Where the table has no deploys at all, a merge is taken to be shipped as it is
    merged.
    """
    table = case.changes.sort("time", "kind", "id")
    if until is not None:
        table = table.filter(pl.col("time") <= until)
    rows = table.tail(MAX_ROWS).to_dicts()
    out = _shipped_rows(rows)
    deploys = [change for change in out if change.kind == "deploy"]
    if not deploys:
        return [_as_merged(change, suspect) for change in out]
    service_names = {*services}
    service_names.update(deploy.service for deploy in deploys if deploy.service)
    return [_with_its_deploy(change, deploys, suspect, service_names) for change in out]


def _shipped_rows(rows: Sequence[dict[str, Any]]) -> list[Shipped]:
    """The rows, without merges that another change of the same id carried."""
    merges = {row["id"]: row for row in rows if row["kind"] == "merge"}
    # Another change with the merge's id took it along: counted alone, it would count twice.
    carried = {row["id"] for row in rows if row["kind"] != "merge"}
    out = []
    for row in rows:
        if row["kind"] != "merge":
            out.append(_shipped(row, merges.get(row["id"], row)))
        elif row["id"] not in carried:
            out.append(_shipped(row, row))
    return out


def taken_back(shipped: Sequence[Shipped], before: datetime) -> frozenset[Shipped]:
    """Changes that a later one, before `before`, took back: a flag set to what it was, a revert
    naming it."""
    changes: set[Shipped] = set()
    in_effect: dict[tuple[str | None, ...], list[Shipped]] = {}
    by_hash: dict[str, list[Shipped]] = {}
    for change in shipped:
        # What is taken back after the onset is a reaction to it, and clears nothing.
        if change.time >= before:
            break
        changes.update(_reverted(change, by_hash))
        by_hash.setdefault(change.id[:SHORT_HASH].lower(), []).append(change)
        step = _STEP.match(change.text.title)
        if step is None:
            continue
        subject = (change.id, change.kind, change.service, step["where"])
        same = in_effect.setdefault(subject, [])
        undone = [earlier for earlier in same if _began_at(earlier, step["after"])]
        if undone:
            changes.update(undone)
            changes.add(change)
            # Both are void now: what follows starts from the old value again.
            same.clear()
        else:
            del same[:-MAX_STEPS]
            same.append(change)
    return frozenset(changes)


def _reverted(change: Shipped, by_hash: Mapping[str, Sequence[Shipped]]) -> Iterator[Shipped]:
    """The earlier changes of the same service that a revert names."""
    if not change.goes_back:
        return
    for name in _HASH.findall(change.text.title):
        for earlier in by_hash.get(name[:SHORT_HASH].lower(), ()):
            if earlier.service == change.service:
                yield earlier


def _began_at(change: Shipped, value: str) -> bool:
    """Whether the change led away from this value."""
    step = _STEP.match(change.text.title)
    return step is not None and step["before"] == value


def _shipped(row: dict[str, object], text: dict[str, object]) -> Shipped:
    title = str(text["title"] or row["title"] or "")
    time, kind = row["time"], str(row["kind"])
    assert isinstance(time, datetime)
    step = Step(_text(row["before"]) or "", _text(row["after"]) or "")
    return Shipped(
        id=str(row["id"]),
        kind=kind,
        service=_text(row["service"]),
        time=time,
        text=read_change_text(title, _text(text["files"]), _text(text["diff"])),
        link=_text(row["link"]),
        author=_text(row["author"]) or "",
        # Sources that have no fields for it, and older case folders, say it in the title.
        step=step if any(step) else step_in(kind, title),
        restored_by=_text(row["restored_by"]) or "",
    )


def _as_merged(change: Shipped, suspect: str | None) -> Shipped:
    """A merge as if it were deployed at once; another change as it is."""
    if change.kind != "merge":
        return change
    service = change.service
    if not service and suspect is not None and touches(change.text, suspect):
        service = suspect
    return replace(change, kind="deploy", service=service, rides=service is None)


def _with_its_deploy(
    change: Shipped, deploys: Sequence[Shipped], suspect: str | None, service_names: Collection[str]
) -> Shipped:
    """A merge reached production with the first later deploy of the service it is of, or of one
    that it touches. Another change is returned as it is."""
    if change.kind != "merge":
        return change
    later = []
    for deploy in deploys:
        if deploy.service and change.time <= deploy.time <= change.time + RIDES_FOR:
            later.append(deploy)
    for deploy in later:
        if change.service == deploy.service or touches(change.text, deploy.service or ""):
            return _carried(change, deploy)
    # Only code of no known service may ride with the suspect's deploy.
    if change.service is not None or any(
        touches(change.text, service) for service in service_names
    ):
        return change
    for deploy in later:
        if deploy.service == suspect:
            return replace(_carried(change, deploy), rides=True)
    return change


def _carried(merge: Shipped, deploy: Shipped) -> Shipped:
    return replace(merge, kind="deploy", service=deploy.service, time=deploy.time)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
