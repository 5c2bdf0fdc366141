"""One finding as the page shows it: its evidence items, its recorded lines, and its details."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import LineDetails
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.miner import VALUE, template_pattern
from faultline.analysis.vocabulary import Evidence, Finding
from faultline.analysis.wording.amounts import NUMBER, PERCENT, SHARE, Unit, amount, times, unit_of
from faultline.bot.answer.lines import SHOWN_BY
from faultline.bot.web.series import can_chart
from faultline.bot.web.text import words

# Names and values of a finding's details as people say them: "duration" and "120 ms" of
# `duration_ns` and 119929757.

_UNIT_NAME = re.compile(
    r"(?:^|[ _])(ns|us|ms|s|sec|seconds|milliseconds|min|bytes|ratio|pct|per[ _]sec(?:ond)?)"
    r"(?=[ _]|$)"
)
_SHARE_NAME = re.compile(r"(?:^|[ _])(percent|share)(?=[ _]|$)")
_IDENTITY = re.compile(r"(?:^|[ _])(?:id|ids|pid|tid|port|code|line|index|seed|version)$")
_MOMENT = re.compile(r"^(?:start|begin|end|time|at|ts)(?:[ _]|$)|[ _](?:at|time)$")
MULTIPLES = ("ratio", "times")
"""Numbers of findings that say how many times as much there is of something."""
FIRST_MOMENT_S, LAST_MOMENT_S = 946_684_800, 4_102_444_800
"""From 2000 to 2100 a number of seconds since 1970 is a moment, and not a length of time."""


@dataclass(frozen=True)
class DetailQuantity:
    """What values under one name are. `compares`: whether bars help to compare them."""

    label: str
    unit: Unit
    is_number: bool
    is_moment: bool
    compares: bool

    def as_identity(self) -> DetailQuantity:
        """The same where the values only name something."""
        return replace(self, is_number=False, compares=False, unit=NUMBER)


def quantity_of(name: str, values: Sequence[object]) -> DetailQuantity:
    """What the values of this name are, by its ending and by their size."""
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and is_number(v)]
    unit = _unit(name, numbers)
    moment = unit.kind == "time" and _are_moments(name, numbers, unit)
    measured = unit is not NUMBER or any(isinstance(v, float) for v in values)
    compares = measured and not moment and _IDENTITY.search(name) is None
    label = words(_UNIT_NAME.sub("", name)) if unit is not NUMBER else words(name)
    return DetailQuantity(
        label or words(name), unit, bool(numbers), moment, compares and bool(numbers)
    )


def value_text(value: object, quantity: DetailQuantity) -> str:
    """One plain value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    if not is_number(value):
        return "unknown"
    if quantity.label in MULTIPLES:
        return times(value)
    if quantity.is_moment:
        moment = datetime.fromtimestamp(value * quantity.unit.factor, UTC)
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    if not quantity.is_number or _IDENTITY.search(quantity.label):
        # An id in groups of three digits is another id.
        return str(value)
    return amount(value, quantity.unit)


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    # True and False are ints.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < math.inf


def _unit(name: str, numbers: Sequence[float]) -> Unit:
    ending = _UNIT_NAME.search(name)
    unit = unit_of(re.sub(r"\W", "_", name), ending[1] if ending else None, numbers)
    share = _SHARE_NAME.search(name)
    if share is None or unit is not NUMBER:
        return unit
    return PERCENT if share[1] == "percent" else SHARE


def _are_moments(name: str, numbers: Sequence[float], unit: Unit) -> bool:
    if not numbers or _MOMENT.search(name) is None:
        return False
    seconds = [number * unit.factor for number in numbers]
    return min(seconds) > FIRST_MOMENT_S and max(seconds) < LAST_MOMENT_S


# What a finding's details hold of rows and groups of numbers, as tables for people: one row per
# rank, phase, step; names and units as people say them, and bars where sizes are to be compared.
#
# Three shapes are known: a list of objects, an object of objects (rank to values), and objects of
# plain values. Objects of plain values with the same keys (phases of this rank, phases of the
# others) share one table and one scale.

IDENTITIES = (
    "rank",
    "host",
    "node",
    "device",
    "step",
    "stream",
    "service",
    "operation",
    "name",
    "event",
)
"""Columns that name a row: they come first and get no bars."""
MAX_ROWS = 128
MAX_COLUMNS = 8
MAX_TABLES = 6


@dataclass(frozen=True)
class TableColumn:
    """A heading; numbers stand right-aligned below it."""

    label: str
    is_number: bool


@dataclass(frozen=True)
class Cell:
    """One value; `share` in [0, 1] of the column's largest value makes a bar."""

    text: str
    share: float | None
    is_number: bool


@dataclass(frozen=True)
class Row:
    """One row; `subject` marks the one the finding is about."""

    cells: tuple[Cell, ...]
    subject: bool


@dataclass(frozen=True)
class DetailTable:
    """A table; `left_out` rows did not fit."""

    name: str
    columns: tuple[TableColumn, ...]
    rows: tuple[Row, ...]
    left_out: int


def detail_tables(details: Mapping[str, Any], subject: str) -> tuple[DetailTable, ...]:
    """The tables of one finding, in the order of its details."""
    return tuple(_tables(details, subject))[:MAX_TABLES]


def _tables(details: Mapping[str, Any], subject: str) -> Iterator[DetailTable]:
    groups: dict[frozenset[str], dict[str, Mapping[str, object]]] = {}
    for name, value in details.items():
        if not value:
            continue
        if isinstance(value, list) and _all_mappings(value):
            yield from _of_rows(name, value, subject)
        if not isinstance(value, Mapping):
            continue
        if all(_is_scalar(field_value) for field_value in value.values()):
            groups.setdefault(frozenset(value), {})[name] = value
        elif _all_mappings(value.values()):
            # The keys name the rows, as ranks do, so that they become the first column.
            rows = [{name: key, **row} for key, row in value.items()]
            yield from _of_rows(name, rows, subject)
    for group in groups.values():
        yield _of_group(group)


def _of_rows(
    name: str, rows: Sequence[Mapping[str, object]], subject: str
) -> Iterator[DetailTable]:
    names = _columns(rows)
    if not names:
        return
    quantities = [_of_column(name, rows) for name in names]
    scales = []
    for column, quantity in zip(names, quantities, strict=True):
        values = [row.get(column) for row in rows]
        scales.append(_scale(values) if quantity.compares else 0.0)
    # Where all rows are about the subject, nothing stands out.
    stands_out = not all(_is_about(row, subject) for row in rows)
    shown = []
    for row in rows[:MAX_ROWS]:
        cells = []
        for column, quantity, scale in zip(names, quantities, scales, strict=True):
            cells.append(_cell(row.get(column), quantity, scale))
        shown.append(Row(tuple(cells), _is_about(row, subject) and stands_out))
    columns = tuple(TableColumn(quantity.label, quantity.is_number) for quantity in quantities)
    yield DetailTable(name, columns, tuple(shown), len(rows) - len(shown))


def _of_column(name: str, rows: Sequence[Mapping[str, object]]) -> DetailQuantity:
    quantity = quantity_of(name, [row.get(name) for row in rows])
    return quantity.as_identity() if name in IDENTITIES else quantity


def _columns(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Those that name a row first, the others in the order in which they come up."""
    names: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if _is_scalar(value):
                names[name] = None
    identities = [name for name in IDENTITIES if name in names]
    other_names = [name for name in names if name not in IDENTITIES]
    return tuple([*identities, *other_names][:MAX_COLUMNS])


def _is_about(row: Mapping[str, object], subject: str) -> bool:
    return any(f"{name} {row[name]}" == subject for name in IDENTITIES if name in row)


def _of_group(group: Mapping[str, Mapping[str, object]]) -> DetailTable:
    """Objects of plain values side by side, largest first."""
    # The others come last, because the columns before are compared with them.
    names = sorted(group, key=lambda name: name.startswith("others"))
    groups = [group[name] for name in names]
    quantities = [quantity_of(name, list(group[name].values())) for name in names]
    every_value: list[object] = []
    for column in groups:
        every_value += column.values()
    compares = all(quantity.compares for quantity in quantities)
    scale = _scale(every_value) if compares else 0.0

    def largest(key: str) -> float:
        return max(_size(group[key]) for group in groups)

    keys = sorted(groups[0], key=largest, reverse=True)
    rows = []
    for key in keys[:MAX_ROWS]:
        cells = [Cell(key, None, is_number=False)]
        for column, quantity in zip(groups, quantities, strict=True):
            cells.append(_cell(column[key], quantity, scale))
        rows.append(Row(tuple(cells), subject=False))
    columns = [TableColumn("", is_number=False)]
    for quantity in quantities:
        columns.append(TableColumn(quantity.label, quantity.is_number))
    return DetailTable("", tuple(columns), tuple(rows), len(keys) - len(rows))


def _scale(values: Sequence[object]) -> float:
    """The largest size of numbers that bars help to compare; 0 when all are equal."""
    sizes = {_size(v) for v in values if is_number(v)}
    return max(sizes) if len(sizes) > 1 else 0


def _cell(value: object, quantity: DetailQuantity, scale: float) -> Cell:
    share = _size(value) / scale if scale and is_number(value) else None
    return Cell(value_text(value, quantity), share, quantity.is_number)


def _size(value: object) -> float:
    return abs(value) if isinstance(value, (int, float)) and is_number(value) else 0.0


def _all_mappings(values: Iterable[object]) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


RECORDED = ("example", "examples", "lines", "stack", "code", "source_line")
"""Details that are text as it was recorded."""
MAX_EXAMPLES = 5
INTERNAL = frozenset(
    {
        "agreement",
        "bearing",
        "class",
        "direction",
        "is_error",
        "own",
        "place",
        "quiet_share",
        "signature",
        "sigmas",
    }
)
"""Details that later steps of the analysis read, and that say nothing to people."""
OF_THE_SIGNAL = ("baseline", "incident", "threshold")
"""Numbers in the unit of the finding's signal."""


@dataclass(frozen=True)
class FindingView:
    """A finding with its evidence items and what its details hold."""

    finding: Finding
    shown_by: str
    """What a reader finds behind it: "graph", "logs", "change"."""
    evidence: tuple[Evidence, ...]
    unknown_evidence: tuple[str, ...]
    examples: tuple[str, ...]
    tables: tuple[DetailTable, ...]
    facts: tuple[tuple[str, str], ...]
    chart: bool


def finding_view(finding: Finding, items: Mapping[str, Evidence]) -> FindingView:
    """Arrange one finding; `items` is the case's evidence by id."""
    written = finding.details.written()
    evidence = tuple(items[i] for i in finding.evidence if i in items)
    examples: list[str] = []
    for key in RECORDED:
        value = written.get(key)
        texts = value if isinstance(value, list) else [value]
        examples += [text for text in texts if isinstance(text, str) and text]
    return FindingView(
        finding=finding,
        shown_by=SHOWN_BY.get(evidence[0].kind, "evidence") if evidence else "finding",
        evidence=evidence,
        unknown_evidence=tuple(i for i in finding.evidence if i not in items),
        examples=tuple(dict.fromkeys(examples))[:MAX_EXAMPLES],
        tables=detail_tables(written, finding.subject),
        facts=_facts(finding),
        chart=can_chart(finding),
    )


def _facts(finding: Finding) -> tuple[tuple[str, str], ...]:
    """The numbers and the plain details, as name and value."""
    facts: dict[str, object] = dict(finding.numbers)
    written = finding.details.written()
    for name, value in written.items():
        # Recorded text is shown in full among the examples.
        is_example = name in RECORDED and isinstance(value, str)
        is_plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if is_plain and not is_example and name not in INTERNAL:
            facts[name] = value
    shown = []
    for name, fact in facts.items():
        quantity = quantity_of(name, [fact])
        if name in OF_THE_SIGNAL and finding.signal:
            unit = unit_of(finding.signal, _text(written.get("unit")))
            quantity = replace(quantity, unit=unit)
        if fact != "":
            shown.append((quantity.label, value_text(fact, quantity)))
    return tuple(shown)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# The recorded lines behind a finding about logs: the first, the last and some between, as they were
# written.

SHOWN = 12
UNWRAPPED = 20_000
"""Lines whose JSON is read when the template is in none of the lines as they stand."""
MAX_LINE = 4_000
MAX_TEMPLATE, MAX_VALUES = 2_000, 100
"""Templates of ours are cut at 400 characters; a pattern of very many values takes minutes to
prepare."""


@dataclass(frozen=True)
class LogLine:
    """One line."""

    time: datetime
    service: str
    level: str
    text: str


@dataclass(frozen=True)
class LogLinesView:
    """Lines of one template, or of one service. `count` of them are in the case."""

    template: str
    lines: tuple[LogLine, ...]
    count: int
    first: datetime
    last: datetime


def log_lines(case: Case, finding: Finding) -> LogLinesView | None:
    """The lines that the finding is about; None when it is about none."""
    if finding.series.get("table") != "logs":
        return None
    details = LineDetails.of(finding)
    template = details.template if details else ""
    rows = _of_template(_of_series(case.logs, finding.series), template).sort("time")
    if not rows.height:
        return None
    lines = [_line(row) for row in _some(rows).iter_rows(named=True)]
    return LogLinesView(template, tuple(lines), rows.height, rows["time"][0], rows["time"][-1])


def _of_series(logs: pl.DataFrame, series: Mapping[str, str]) -> pl.DataFrame:
    rows = logs.drop_nulls("message")
    for column in ("service", "level"):
        if series.get(column):
            rows = rows.filter(pl.col(column) == series[column])
    return rows


def _some(rows: pl.DataFrame) -> pl.DataFrame:
    """The first line, the last one, and some evenly between."""
    step = max(1, math.ceil(rows.height / (SHOWN - 1)))
    spread = rows.gather_every(step).head(SHOWN - 1)
    # The last line may be among them already.
    return pl.concat([spread, rows.tail(1)]).unique(maintain_order=True)


def _line(row: Mapping[str, Any]) -> LogLine:
    text = row["message"][:MAX_LINE]
    return LogLine(row["time"], row["service"] or "", row["level"] or "", text)


def _of_template(rows: pl.DataFrame, template: str) -> pl.DataFrame:
    if not template:
        return rows
    if len(template) > MAX_TEMPLATE or template.count(VALUE) > MAX_VALUES:
        return rows.clear()
    pattern = template_pattern(template)
    try:
        texts = rows.filter(pl.col("message").str.contains(pattern))
        if not texts.height:
            texts = log_texts(rows.head(UNWRAPPED)).filter(pl.col("text").str.contains(pattern))
    # The regex engine refuses a pattern that compiles to more than its limit.
    except pl.exceptions.PolarsError:
        return rows.clear()
    return texts
