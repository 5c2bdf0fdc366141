"""What a search answers, its lines as rows of the table `logs` and its counts as `metrics`.

Shapes: elastic/elasticsearch-specification and opensearch-project/opensearch-api-specification, as
of 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import EARLIEST_NS, attributes, ns_of
from faultline.connectors.shared.rows.log_windows import FAILING, LONGEST_LINE, CountGrid
from faultline.connectors.shared.rows.otlp_spans import TRACE_ID_BYTES, hex_id
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.elasticsearch.fields import (
    LEVELS,
    MESSAGES,
    SERVICES,
    TRACES,
    LogFields,
)

MOST_FIELDS = 1000
DEEPEST = 12
MOST_LEVELS = 50

Row = tuple[Any, ...]


class Shards(msgspec.Struct):
    total: int = 0
    failed: int = 0


class Hit(msgspec.Struct):
    sort: list[Any] = []
    source: dict[str, Any] = msgspec.field(default_factory=dict, name="_source")


class Hits(msgspec.Struct):
    hits: list[Hit]


class Step(msgspec.Struct):
    key: float
    doc_count: int


class Steps(msgspec.Struct):
    buckets: list[Step]


class Named(msgspec.Struct):
    key: str
    steps: Steps | None = None


class Names(msgspec.Struct):
    buckets: list[Named]


class SearchAnswer(msgspec.Struct):
    """What every search says of itself."""

    timed_out: bool
    shards: Shards = msgspec.field(name="_shards")

    @property
    def incomplete(self) -> str | None:
        """Why it is not all that is there."""
        if self.shards.failed:
            return f"{self.shards.failed} of {self.shards.total} shards did not answer"
        return "the search ran into its time limit" if self.timed_out else None


class LinesAnswer(SearchAnswer, kw_only=True):
    hits: Hits


class Counts(msgspec.Struct):
    levels: Names | None = None
    steps: Steps | None = None


class CountsAnswer(SearchAnswer, kw_only=True):
    aggregations: Counts


class NamesAnswer(SearchAnswer, kw_only=True):
    aggregations: dict[str, Names]


def line_rows(hits: Iterable[Hit], service: str, fields: LogFields) -> tuple[list[Row], int]:
    """Lines as rows in the given order, and how many were left out because they have no readable
    time or text."""
    rows, dropped = [], 0
    for hit in hits:
        row = _row(hit, service, fields)
        if row is None:
            dropped += 1
        else:
            rows.append(row)
    return rows, dropped


def _row(hit: Hit, service: str, fields: LogFields) -> Row | None:
    at = ns_of(hit.sort[0]) if hit.sort else None
    source_fields = flat(hit.source)
    text = _first(source_fields, (*fields.messages, *MESSAGES))
    if at is None or at < EARLIEST_NS or text is None:
        return None
    # `.keyword` is a part of the index; the document holds the field without it.
    level = _first(source_fields, ((fields.level or "").removesuffix(".keyword"), *LEVELS))
    trace = hex_id((_first(source_fields, TRACES) or "")[:64], TRACE_ID_BYTES) or None
    messages = {fields.time, *fields.messages, *LEVELS, *TRACES, *SERVICES[:3]}
    values = {name: value for name, value in source_fields.items() if name not in messages}
    shown = short(level.lower(), 20) if level else None
    return at, service, text[:LONGEST_LINE], shown, trace, attributes(values)


def _first(source_fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        value = source_fields.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def flat(source: Mapping[str, Any]) -> dict[str, Any]:
    """A document's texts, numbers and booleans by their dotted names, bounded in number and
    depth."""
    values_by_path: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [("", source, 0)]
    while waiting and len(values_by_path) < MOST_FIELDS:
        # Breadth first, so that the bound leaves out the deepest fields.
        path, value, depth = waiting.pop(0)
        if isinstance(value, dict) and depth < DEEPEST:
            for name, inner in list(value.items())[:MOST_FIELDS]:
                waiting.append((f"{path}.{name}" if path else str(name), inner, depth + 1))
        elif isinstance(value, (str, int, float)):
            values_by_path[path] = value
    return values_by_path


def count_rows(
    counts: Counts, service: str, grid: CountGrid, signals: tuple[str, str]
) -> list[Row]:
    """Lines per minute in each step, by the moment it begins: of other levels and of errors. None
    counted is 0. Without levels there are no rows of errors."""
    if counts.levels is None:
        steps = counts.steps.buckets if counts.steps else ()
        return grid.rows(signals[0], service, _counted(steps, grid))
    other_steps: list[Step] = []
    errors: list[Step] = []
    for level in counts.levels.buckets:
        counted = level.steps.buckets if level.steps else []
        (errors if level.key.lower() in FAILING else other_steps).extend(counted)
    return [
        *grid.rows(signals[0], service, _counted(other_steps, grid)),
        *grid.rows(signals[1], service, _counted(errors, grid)),
    ]


def _counted(steps: Sequence[Step], grid: CountGrid) -> Iterator[tuple[int, float]]:
    for step in steps:
        # A bucket's key is the beginning of its step, in ms.
        yield round(step.key / 1000 - grid.start_s) // grid.step_s, step.doc_count
