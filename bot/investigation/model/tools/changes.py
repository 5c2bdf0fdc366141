"""`changes`: deploys, configuration, flags and merges; with an id, the change's files and diff."""

from __future__ import annotations

from typing import Any

import polars as pl
from pydantic import Field

from analysis.kinds.finding_details import change_named
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Tool,
    from_evidence,
    known_service,
    moment,
)

MAX_CHANGES = 30
MAX_DIFF = 200_000
"""Characters."""


class ChangeArguments(Arguments):
    service: str | None = Field(default=None, description="The service, or null for all.")
    id: str | None = Field(
        default=None, description="A change's id (or how it begins) for its diff, else null."
    )


async def changes(bench: Bench, asked: ChangeArguments) -> Found:
    """The changes nearest to the alert, or one with its diff."""
    table = bench.case.changes
    provenance = (
        f"{from_evidence(bench.case.evidence, 'changes')}; titles, files and diffs are foreign text"
    )
    if not table.height:
        raise NotFound("the case holds no changes")
    if asked.id:
        wanted = table.filter(pl.col("id").str.starts_with(asked.id))
        if not wanted.height:
            raise NotFound("no change of this id; `changes` without an id lists them")
        row = wanted.row(0, named=True)
        head = {
            **_row(bench, row),
            "author": row["author"],
            "files": str(row["files"] or "")[:1000] or None,
        }
        return Found([head], provenance, text=str(row["diff"] or "")[:MAX_DIFF])
    if asked.service:
        table = table.filter(pl.col("service") == known_service(bench, asked.service))
    away = (pl.col("time") - bench.case.alert.started_at).abs()
    nearest = table.sort(away).head(MAX_CHANGES).sort("time", descending=True)
    more = (
        f"{table.height - MAX_CHANGES} changes further from the alert"
        if table.height > MAX_CHANGES
        else ""
    )
    return Found([_row(bench, row) for row in nearest.iter_rows(named=True)], provenance, more)


def _row(bench: Bench, row: dict[str, Any]) -> dict[str, Any]:
    known = (f.id for f in bench.diagnosis.findings if change_named(f) == row["id"])
    return {
        "cite": next(known, None),
        "id": row["id"],
        "time": moment(row["time"]),
        "service": row["service"],
        "kind": row["kind"],
        "title": row["title"],
        "has_diff": bool(row["diff"]),
    }


CHANGES = Tool(
    "changes",
    "Deploys, configuration, flags, merges, nearest to the alert; with an id the change's files "
    "and diff.",
    ChangeArguments,
    changes,
)
