"""`calculate`: arithmetic over series that were shown, each named by the id of its row.

The expression is read by Python's own parser and evaluated here, node by node: numbers, ids, the
four operations and the functions below, nothing else.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl
from pydantic import AwareDatetime, Field

from faultline.analysis.case.windows import Windows, metric_windows
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.metrics.series import PER_SECOND
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import amount, unit_of
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    has,
    observation,
)
from faultline.bot.investigation.model.tools.metric_rows import DAY, WEEK, metric_rows
from faultline.bot.runtime.threads import in_thread

MOST_NODES = 60
MOST_POINTS = 200_000
LEAST_STEP_S = 1.0

REDUCED: Mapping[str, Callable[[pl.Series], Any]] = {
    "mean": pl.Series.mean,
    "median": pl.Series.median,
    "min": pl.Series.min,
    "max": pl.Series.max,
    "sum": pl.Series.sum,
    "count": pl.Series.len,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "p50": lambda values: values.quantile(0.5, "linear"),
    "p90": lambda values: values.quantile(0.9, "linear"),
    "p95": lambda values: values.quantile(0.95, "linear"),
    "p99": lambda values: values.quantile(0.99, "linear"),
}
CHOSEN = ("baseline", "incident", "before", "after", "yesterday", "last_week", "rate")
OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class CalculateArguments(Arguments):
    expression: str = Field(
        description="Such as mean(incident(L1)) / mean(baseline(L1)), or L1 - L2. Ids are those of "
        f"rows that are series. Of a series: {', '.join(CHOSEN)}. To a number: "
        f"{', '.join(REDUCED)}, quantile(0.99, L1), abs."
    )
    at: AwareDatetime | None = Field(
        default=None, description="ISO 8601: where before() and after() divide; null: the alert."
    )


@dataclass(frozen=True)
class Value:
    """A number, or points of a series (time, value); with the unit, where it is still one."""

    number: float | None = None
    points: pl.DataFrame | None = None
    unit: str | None = None
    step_s: float = LEAST_STEP_S


@dataclass(frozen=True)
class _Context:
    model_session: ModelSession
    windows: Windows
    at: datetime
    named: dict[str, Finding]
    """The findings that the expression names, in their order."""


async def calculate(model_session: ModelSession, arguments: CalculateArguments) -> CallResult:
    """The value, or of a series its medians in baseline and incident."""
    finding = await in_thread(_calculated, model_session, arguments)
    return CallResult([Row(finding.sentence, finding=finding)], "calculated by code from the case")


def _calculated(model_session: ModelSession, arguments: CalculateArguments) -> Finding:
    tree = _parsed(arguments.expression)
    windows = metric_windows(model_session.case)
    context = _Context(
        model_session, windows, arguments.at or model_session.case.alert.started_at, {}
    )
    value = _value(tree, context)
    named = list(context.named.values())
    if not named:
        raise InvalidCall("name at least one series by the id of its row, such as L1")
    first = named[0]
    names = [
        f"{finding.id} is {plain(finding.subject)} {plain(finding.signal or '')}"
        for finding in named
    ]
    legend = "; ".join(names)
    unit = value.unit
    text, numbers = f"{plain(arguments.expression, 300)}", dict[str, float]()
    if value.points is None:
        result = value.number if value.number is not None else math.nan
        if not math.isfinite(result):
            raise InvalidCall(
                "the result is not a finite number: a divisor is zero or a part is empty"
            )
        numbers["value"] = result
        text += f" = {amount(result, unit_of('', unit, [result]))}"
        direction = None
    else:
        text, numbers, direction = _both_windows(value, windows, text)
    return observation(
        first.subject,
        "calculation",
        f"{text}, where {legend}.",
        ObservationDetails(
            about="calculation", direction=direction, unit=unit, expression=arguments.expression
        ),
        evidence=tuple(dict.fromkeys(e for finding in named for e in finding.evidence)),
        numbers=numbers,
    )


def _both_windows(
    value: Value, windows: Windows, text: str
) -> tuple[str, dict[str, float], str | None]:
    assert value.points is not None
    numbers, unit = dict[str, float](), unit_of("", value.unit)
    for name, rows in (
        ("baseline", value.points.filter(windows.in_baseline("time") & ~windows.in_search("time"))),
        ("incident", value.points.filter(windows.in_search("time"))),
    ):
        median = rows["value"].median()
        if isinstance(median, float) and math.isfinite(median):
            numbers[name] = median
    if not numbers:
        raise InvalidCall("the result has no points in the baseline or the incident")
    shown = [f"{amount(n, unit)} in the {name}" for name, n in numbers.items()]
    text += f": median {' and '.join(shown)}"
    before, now = numbers.get("baseline"), numbers.get("incident")
    if before is None or now is None:
        return text, numbers, None
    if before > 0 and now > 0:
        numbers["ratio"] = now / before
    if before == now:
        return text, numbers, "unaffected"
    return text, numbers, "rose" if now > before else "fell"


def _parsed(expression: str) -> ast.expr:
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidCall(
            "the expression cannot be read: use numbers, ids, + - * / and ()"
        ) from None
    # The walk also counts operators and contexts, so a part is up to three nodes.
    if sum(1 for _ in ast.walk(tree)) > 3 * MOST_NODES:
        raise InvalidCall(f"the expression has more than {MOST_NODES} parts")
    return tree


def _value(node: ast.expr, context: _Context) -> Value:
    match node:
        # A bool is an int in Python, but no number here.
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Value(number=float(number))
        case ast.Name(id=name):
            return _series(name, context)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _combined(operator.sub, Value(number=0.0), _value(operand, context))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATIONS:
            function = OPERATIONS[type(op)]
            return _combined(function, _value(left, context), _value(right, context))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, args, context)
    raise InvalidCall(
        "only numbers, ids of rows, + - * / and the functions of `calculate` are taken"
    )


def _called(name: str, args: list[ast.expr], context: _Context) -> Value:
    if name == "quantile":
        if len(args) != 2:
            raise InvalidCall("quantile takes a share and a series: quantile(0.99, L1)")
        share = _value(args[0], context).number
        if share is None or not 0 <= share <= 1:
            raise InvalidCall("the first of quantile is a share from 0 to 1")
        return _reduced(lambda values: values.quantile(share, "linear"), args[1], name, context)
    if len(args) != 1:
        raise InvalidCall(f"{plain(name, 40)} takes one series")
    if name in REDUCED:
        return _reduced(REDUCED[name], args[0], name, context)
    value = _value(args[0], context)
    if name == "abs":
        if value.number is not None:
            return replace(value, number=abs(value.number))
        return replace(value, points=_points(value, name).with_columns(pl.col("value").abs()))
    if name not in CHOSEN:
        raise InvalidCall(
            f"no function {plain(name, 40)}; there are {', '.join((*CHOSEN, *REDUCED))}, quantile, "
            "abs"
        )
    return _chosen(name, value, context)


def _reduced(
    how: Callable[[pl.Series], Any], node: ast.expr, name: str, context: _Context
) -> Value:
    value = _value(node, context)
    values = _points(value, name)["value"]
    if not len(values):
        raise InvalidCall(f"{name} has no points to work on")
    return Value(number=float(how(values)), unit=None if name == "count" else value.unit)


def _chosen(name: str, value: Value, context: _Context) -> Value:
    rows, time, windows = _points(value, name), pl.col("time"), context.windows
    if name == "rate":
        seconds = time.diff().dt.total_milliseconds() / 1000
        rows = rows.sort("time").with_columns((pl.col("value").diff() / seconds).alias("value"))
        unit = PER_SECOND if value.unit is None else f"{value.unit}/s"
        return replace(value, points=rows.filter(pl.col("value").is_finite()), unit=unit)
    if name in ("yesterday", "last_week"):
        ago = DAY if name == "yesterday" else WEEK
        # Moved forward, so that the points lie beside those of the incident.
        shifted = rows.with_columns((time + ago).alias("time"))
        return replace(value, points=shifted.filter(windows.in_search("time")))
    conditions = {
        # What lies in both windows belongs to the incident.
        "baseline": windows.in_baseline("time") & ~windows.in_search("time"),
        "incident": windows.in_search("time"),
        "before": time < context.at,
        "after": time >= context.at,
    }
    return replace(value, points=rows.filter(conditions[name]))


def _points(value: Value, name: str) -> pl.DataFrame:
    if value.points is None:
        raise InvalidCall(f"{plain(name, 40)} works on a series, not on a number")
    return value.points


def _combined(function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    unit = _joined_unit(function, left, right)
    if left.points is None and right.points is None:
        try:
            return Value(number=function(left.number, right.number), unit=unit)
        except (ZeroDivisionError, OverflowError):
            raise InvalidCall("a divisor is zero, or a number is too large") from None
    step_s = max(left.step_s, right.step_s)
    if left.points is None or right.points is None:
        a = pl.col("value") if left.points is not None else pl.lit(left.number)
        b = pl.col("value") if right.points is not None else pl.lit(right.number)
        rows = left.points if left.points is not None else right.points
        assert rows is not None
        made = rows.with_columns(function(a, b).alias("value"))
    else:
        # Two servers scrape at different seconds: what lies in the same step belongs together.
        grid = pl.col("time").dt.truncate(timedelta(seconds=max(step_s, LEAST_STEP_S)))
        grids = []
        for rows in (left.points, right.points):
            grids.append(rows.group_by(grid).agg(pl.col("value").mean()).sort("time"))
        both = grids[0].join(grids[1], on="time", suffix="_right")
        if not both.height:
            raise InvalidCall("the two series have no times in common")
        made = both.select("time", function(pl.col("value"), pl.col("value_right")).alias("value"))
    return Value(points=made.filter(pl.col("value").is_finite()), unit=unit, step_s=step_s)


def _joined_unit(function: Callable[[Any, Any], Any], left: Value, right: Value) -> str | None:
    if function in (operator.add, operator.sub):
        return left.unit if left.unit == right.unit else left.unit or right.unit
    # A ratio of two measured values has no unit.
    if function is operator.truediv and right.unit is not None:
        return None
    return left.unit if right.unit is None else (right.unit if left.unit is None else None)


def _series(name: str, context: _Context) -> Value:
    finding = next((f for f in context.model_session.findings if f.id == name), None)
    if finding is None:
        raise InvalidCall(f"{plain(name, 40)} is no row that was shown; `series` shows some")
    where = finding.series
    table = _table(where, context.model_session)
    if table is None or "signal" not in where:
        raise InvalidCall(f"{name} is no series; take an id of `series`, `compare` or `query`")
    service = pl.col("service").fill_null("") == where.get("service", "")
    rows = table.filter(service, pl.col("signal") == where["signal"])
    if "labels" in where:
        rows = rows.filter(pl.col("labels").fill_null("") == where["labels"])
    if rows.height > MOST_POINTS:
        raise InvalidCall(f"{name} has more than {MOST_POINTS} points")
    if rows["labels"].n_unique() > 1 and "labels" not in where:
        bare = rows.filter(pl.col("labels").fill_null("") == "")
        if not bare.height:
            raise InvalidCall(
                f"{name} stands for several series; take the row of one from `series`"
            )
        rows = bare
    points = metric_rows(rows.with_columns(service=pl.lit("")), context.windows)
    if not points.height:
        raise InvalidCall(f"{name} has no points")
    context.named[name] = finding
    step_s = points["time"].diff().median()
    seconds = step_s.total_seconds() if isinstance(step_s, timedelta) else LEAST_STEP_S
    unit = points["unit"][0] or None
    return Value(points=points.select("time", "value"), unit=unit, step_s=max(seconds, 1.0))


def _table(where: Mapping[str, str], model_session: ModelSession) -> pl.DataFrame | None:
    """The table that a finding's series is in; None where that holds no metrics."""
    match where.get("table"):
        case "metrics":
            return model_session.case.metrics
        case "query":
            answer = model_session.answers.get(where.get("ask", ""))
            return answer.tables.get("metrics") if answer is not None else None
        case _:
            return None


CALCULATE = Tool(
    "calculate",
    "Arithmetic over series by the ids of their rows: sums, differences, ratios, rates, quantiles, "
    "before and after. The result can be cited.",
    CalculateArguments,
    calculate,
    has("metrics"),
)
