"""Changes as they reached production: a merge travels with a deploy, a flag or a release may be
taken back."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import polars as pl

from analysis.case.folder import Case
from analysis.changes.text import ChangeText, read_change_text, touches
from analysis.wording.phrases import plain

RIDES_FOR = timedelta(hours=24)
"""A merge that no deploy of its service carried for a day is not waited for any longer."""
MAX_ROWS = 5_000
"""Rows that are read, the latest first."""
SHORT_HASH = 7
"""Git's own abbreviation."""
MAX_STEPS = 20
_HASH = re.compile(r"\b[0-9a-fA-F]{7,40}\b")
_STEP = re.compile(r"^\s*(?:\S+:\s*)?([\w.%-]{1,40})\s*(?:->|→|=>|\bto\b)\s*([\w.%-]{1,40})\s*$")
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
    """It is taken to have travelled with a deploy that does not name it, nor it the service."""

    @property
    def label(self) -> str:
        """Short name: the first 12 characters of a hash, a flag's name as it is."""
        return plain(self.id[:12] if len(self.id) >= 32 and self.id.isalnum() else self.id, 60)

    @property
    def goes_back(self) -> bool:
        """Whether it says that it takes another change back."""
        return _REVERT.search(self.text.title) is not None

    @property
    def by_autoscaler(self) -> bool:
        """Whether no person or pipeline decided it."""
        return (
            self.kind == "scale"
            and _AUTOSCALED.search(f"{self.author} {self.text.title}") is not None
        )


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
    merges = {r["id"]: r for r in rows if r["kind"] == "merge"}
    deployed = {r["id"] for r in rows if r["kind"] != "merge"}
    out: list[Shipped] = []
    for row in rows:
        if row["kind"] == "merge" and row["id"] in deployed:
            continue
        out.append(_shipped(row, merges.get(row["id"], row) if row["kind"] != "merge" else row))
    deploys = [c for c in out if c.kind == "deploy"]
    if not deploys:
        return [_as_merged(c, suspect) if c.kind == "merge" else c for c in out]
    known = {*services, *(c.service for c in deploys if c.service)}
    return [_with_its_deploy(c, deploys, suspect, known) if c.kind == "merge" else c for c in out]


def taken_back(shipped: Sequence[Shipped], before: datetime) -> frozenset[Shipped]:
    """Changes that a later one, before `before`, took back: a flag set to what it was, a revert
    naming it."""
    found: set[Shipped] = set()
    stands: dict[tuple[str, str, str | None], list[Shipped]] = {}
    by_id: dict[str, list[Shipped]] = {}
    for change in shipped:
        if change.time >= before:
            break
        for name in _HASH.findall(change.text.title) if change.goes_back else ():
            found.update(
                c for c in by_id.get(name[:SHORT_HASH].lower(), ()) if c.service == change.service
            )
        by_id.setdefault(change.id[:SHORT_HASH].lower(), []).append(change)
        if step := _STEP.match(change.text.title):
            earlier = stands.setdefault((change.id, change.kind, change.service), [])
            back = [
                c
                for c in earlier
                if (was := _STEP.match(c.text.title)) and was.group(1) == step.group(2)
            ]
            found.update(back)
            stands[change.id, change.kind, change.service] = (
                [] if back else [*earlier[-MAX_STEPS:], change]
            )
            found.update([change] if back else [])
    return frozenset(found)


def _shipped(row: dict[str, object], text: dict[str, object]) -> Shipped:
    title = str(text["title"] or row["title"] or "")
    time = row["time"]
    assert isinstance(time, datetime)
    return Shipped(
        id=str(row["id"]),
        kind=str(row["kind"]),
        service=_text(row["service"]),
        time=time,
        text=read_change_text(title, _text(text["files"]), _text(text["diff"])),
        link=_text(row["link"]),
        author=_text(row["author"]) or "",
    )


def _as_merged(merge: Shipped, suspect: str | None) -> Shipped:
    named = suspect if suspect is not None and touches(merge.text, suspect) else None
    service = merge.service or named
    return replace(merge, kind="deploy", service=service, rides=service is None)


def _with_its_deploy(
    merge: Shipped, deploys: Sequence[Shipped], suspect: str | None, known: Collection[str]
) -> Shipped:
    """A merge reached production with the first later deploy of the service it is of, or of one
    that it touches."""
    later = [d for d in deploys if d.service and merge.time <= d.time <= merge.time + RIDES_FOR]
    for deploy in later:
        if merge.service == deploy.service or touches(merge.text, deploy.service or ""):
            return replace(merge, kind="deploy", service=deploy.service, time=deploy.time)
    if merge.service is None and not any(touches(merge.text, s) for s in known):
        for deploy in later:
            if deploy.service == suspect:
                return replace(
                    merge, kind="deploy", service=deploy.service, time=deploy.time, rides=True
                )
    return merge


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
