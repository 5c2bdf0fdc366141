"""What a tool gives: rows of small values with where they come from, and the findings in them that
may be cited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from analysis.vocabulary import Evidence, Window
from analysis.wording.phrases import rounded
from bot.investigation.model.bench import Bench

Row = Mapping[str, Any]
BARS = "▁▂▃▄▅▆▇█"
SPARK = 32
"""Bars of a sparkline."""


class Arguments(BaseModel):
    """Base of the tools' arguments. What is not known is refused, so that the model learns that it
    was not heard."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=400)


@dataclass(frozen=True)
class Found:
    """The result of a call. `provenance` says whose data it is; `note` is ours."""

    rows: Sequence[Row]
    provenance: str
    note: str = ""
    text: str = ""
    """Foreign text of many lines, such as a diff."""
    asked: str | None = None
    """Name of the new evidence that the call brought."""


class NotFound(Exception):
    """The call makes no sense as it is; the message says what would."""


@dataclass(frozen=True)
class Tool:
    """A tool: how the model sees it, and what it does."""

    name: str
    description: str
    arguments: type[Arguments]
    call: Callable[[Bench, Any], Awaitable[Found]]


def known_service(bench: Bench, name: str) -> str:
    """The service as the case spells it. Raises NotFound, naming like ones."""
    services = bench.services()
    if name in services:
        return name
    folded = {s.casefold(): s for s in sorted(services)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    like = [
        s
        for s in sorted(services)
        if name.casefold() in s.casefold() or s.casefold() in name.casefold()
    ]
    shown = ", ".join((like or sorted(services))[:20])
    raise NotFound(f"no service of that name is known here; known are: {shown}")


def from_evidence(evidence: Sequence[Evidence], kind: str) -> str:
    """Where a table's rows came from."""
    items = [e for e in evidence if e.kind == kind]
    sources = ", ".join(sorted({e.source for e in items}))
    ids = ", ".join(e.id for e in items[:6]) + (", ..." if len(items) > 6 else "")
    return f"{kind} from {sources} ({ids})" if items else f"{kind} of the case"


def sparkline(times: pl.Series, values: pl.Series, start: datetime, end: datetime) -> str:
    """The values from start to end as a row of bars, each the mean of its part; a dot where there
    are none."""
    width = (end - start) / SPARK
    if width.total_seconds() <= 0 or not len(values):
        return ""
    part = (
        (times - start).dt.total_microseconds() // max(1, int(width.total_seconds() * 1e6))
    ).clip(0, SPARK - 1)
    means = (
        pl.DataFrame({"part": part, "value": values}).group_by("part").agg(pl.col("value").mean())
    )
    by_part = {int(p): v for p, v in means.iter_rows() if v is not None}
    low, high = min(by_part.values(), default=0.0), max(by_part.values(), default=0.0)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(
        BARS[round((by_part[n] - low) / step)] if n in by_part else "·" for n in range(SPARK)
    )


def moment(value: Any) -> str | None:
    """A time as findings write it."""
    return (
        value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if isinstance(value, datetime)
        else None
    )


def span_of(windows: Iterable[Window]) -> str:
    """Windows in words."""
    return "; ".join(f"{w.start:%Y-%m-%d %H:%M:%S} to {w.end:%H:%M:%S} UTC" for w in windows)


def value(number: Any) -> float | None:
    """A number as it is quoted."""
    return rounded(float(number)) if isinstance(number, (int, float)) else None
