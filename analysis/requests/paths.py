"""The path of each request through each service: the steps it took there, in order.

A visit is one entry of a request into a service: the span whose parent belongs to another service
(or to none), with all spans below it that are of the same service. Its steps are those inner spans,
the calls it makes to other services, and the log lines that name one of its spans (or, without a
span id, the only visit of that service in the trace). The events of one request in order are those
of Nezha (Yu et al., FSE 2023); here they are kept apart by service, so that the clocks of two hosts
are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import span_windows
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.templates import TemplateMiner
from faultline.analysis.requests.critical_path import with_visits

NOW, BEFORE = "now", "before"
START, END = "start", "end"
LINE_TEXT = 90
MAX_LINES = 20_000
"""Distinct masked lines that are grouped into templates; the rest are left out."""
_TRACE_ID = r"(?i)trace_?id[\"'=: ]+([0-9a-f]{16,32})"
_SPAN_ID = r"(?i)span_?id[\"'=: ]+([0-9a-f]{16})\b"
_PLACE = (
    r"((?:[A-Za-z_$][\w$\[\]]*\.)+[A-Za-z_$][\w$]*#\d{1,6}"
    r"|[\w$./-]*\w\.(?:java|kt|scala|go|py|js|ts|rb|cs|cpp|cc|rs|php):\d{1,6})\b"
)
"""The statement that logged: "o.c.OrderController#42" (Logback and Log4j2 %logger#%line) or
"http/server.go:118" (zap, klog, Python's %(filename)s:%(lineno)d). Lines that name their statement
are distinguished by it, others by template."""
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "visit": pl.UInt32,
    "time": pl.Datetime("ns", "UTC"),
    "step": pl.String,
    "masked": pl.String,
    "is_error": pl.Boolean,
}


@dataclass(frozen=True)
class RequestPaths:
    """Visits of baseline and incident, and their steps."""

    visits: pl.DataFrame
    """visit, side ("before" or "now"), trace_id, service, operation (of the entry span),
    caller_visit and context (which service called, and after which of its own steps); the last two
    are null for a request from outside."""
    steps: pl.DataFrame
    """visit, step, next: each step of a visit once, in order of its first occurrence, from "start"
    to "end"."""
    errors: pl.DataFrame
    """visit, masked: the masked error lines of each visit; they are no steps."""
    callees: dict[str, str]
    """The service that a step calls, of the steps that are calls."""


def request_paths(case: Case) -> RequestPaths | None:
    """The paths in both windows; None without spans in both."""
    if not case.spans.height:
        return None
    spans = with_visits(case.spans)
    entries = _sided_entries(case, spans)
    # A single side has nothing to compare with.
    if entries["side"].n_unique() < 2:
        return None
    spans = spans.join(entries.select("visit"), on="visit", how="semi", maintain_order="left")
    # One row per call to another service: the number of its entry span and of the parent, and the
    # caller's step.
    calls = spans.filter(pl.col("entry") & pl.col("parent").is_not_null()).select(
        "row",
        "parent",
        "service",
        "start",
        pl.concat_str(pl.lit("call to "), "service", pl.lit(" "), "operation").alias("call"),
    )
    lines = _lines(case, spans, entries)
    happened = pl.concat(
        [
            _inner(spans, calls),
            _direct(spans, calls),
            lines.filter(~pl.col("is_error")).select("visit", "time", "step"),
        ]
    )
    # A step that repeats counts once, when it first came: loops vary from request to request.
    rows = happened.sort("visit", "time", "step").unique(
        ["visit", "step"], keep="first", maintain_order=True
    )
    same = pl.col("visit") == pl.col("visit").shift(-1)
    taken = rows.select(
        "visit",
        "step",
        pl.when(same).then(pl.col("step").shift(-1)).otherwise(pl.lit(END)).alias("next"),
    )
    first = rows.unique("visit", keep="first", maintain_order=True).select(
        "visit", pl.col("step").alias("next")
    )
    starts = entries.select("visit").join(first, on="visit", how="left", maintain_order="left")
    steps = pl.concat(
        [starts.select("visit", pl.lit(START).alias("step"), pl.col("next").fill_null(END)), taken]
    )
    visits = entries.join(
        _callers(spans, calls, steps), on="visit", how="left", maintain_order="left"
    )
    errors = lines.filter("is_error").select("visit", "masked").unique(maintain_order=True)
    return RequestPaths(
        visits, steps, errors, dict(calls.select("call", "service").unique().iter_rows())
    )


def _sided_entries(case: Case, spans: pl.DataFrame) -> pl.DataFrame:
    """One row per visit that begins in either window; the incident wins where they overlap."""
    windows = span_windows(case)
    side = windows.side("start", searched=NOW, baseline=BEFORE)
    entries = spans.filter("entry").select(
        "visit", side.alias("side"), "trace_id", "service", "operation"
    )
    return entries.filter(pl.col("side").is_not_null())


def _inner(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The spans inside a visit as steps; a client span is the call it makes."""
    first = (
        calls.sort("start", "row")
        .unique("parent", keep="first")
        .select(pl.col("parent").alias("row"), "call")
    )
    inner = spans.filter(~pl.col("entry")).join(first, on="row", how="left", maintain_order="left")
    return inner.select(
        "visit", pl.col("start").alias("time"), pl.coalesce("call", "operation").alias("step")
    )


def _direct(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls without a client span: the callee's entry is a child of the caller's entry."""
    entries = spans.filter("entry").select(pl.col("row").alias("parent"), "visit")
    made = calls.join(entries, on="parent", how="inner", maintain_order="left")
    return made.select("visit", pl.col("start").alias("time"), pl.col("call").alias("step"))


def _lines(case: Case, spans: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """Log lines of a visit. Only of services whose visits left lines in both windows: lost logs are
    no lost steps."""
    logs = case.logs.with_columns(
        pl.coalesce("trace_id", pl.col("message").str.extract(_TRACE_ID)).alias("trace_id"),
        pl.col("message").str.extract(_SPAN_ID).alias("span_id"),
        pl.col("time").dt.cast_time_unit("ns"),
    ).filter(pl.col("trace_id").is_not_null() & pl.col("service").is_not_null())
    if not logs.height:
        return pl.DataFrame(schema=_SCHEMA)
    named = spans.select("trace_id", "span_id", "service", pl.col("visit").alias("named"))
    # With two visits of the service in one trace, a line without a span id fits neither.
    only = entries.select("trace_id", "service", pl.col("visit").alias("only")).unique(
        ["trace_id", "service"], keep="none"
    )
    logs = logs.join(
        named, on=["trace_id", "span_id", "service"], how="left", maintain_order="left"
    )
    logs = logs.join(only, on=["trace_id", "service"], how="left", maintain_order="left")
    logs = logs.with_columns(pl.coalesce("named", "only").alias("visit")).filter(
        pl.col("visit").is_not_null()
    )
    logs = logs.join(
        entries.select("visit", "side"), on="visit", how="inner", maintain_order="left"
    )
    logs = logs.filter(pl.col("side").n_unique().over("service") == 2)
    return _with_steps(log_texts(logs)) if logs.height else pl.DataFrame(schema=_SCHEMA)


def _with_steps(texts: pl.DataFrame) -> pl.DataFrame:
    """The lines with their step: the statement that logged them, else their template, with its
    first masked text."""
    place = pl.col("text").str.extract(_PLACE)
    kinds = (
        texts.select("service", "masked", place.alias("place"))
        .unique(maintain_order=True)
        .sort("service", "masked", "place")
    )
    miners: dict[str, TemplateMiner] = {}
    names = [
        at or f"template {miners.setdefault(service, TemplateMiner()).add(masked)}"
        for service, masked, at in kinds.head(MAX_LINES).iter_rows()
    ]
    kinds = kinds.head(MAX_LINES).with_columns(pl.Series("name", names, dtype=pl.String))
    step_text = pl.concat_str(
        pl.lit("line "), pl.col("masked").first().over("service", "name").str.slice(0, LINE_TEXT)
    )
    kinds = kinds.with_columns(
        pl.when(pl.col("place").is_null())
        .then(step_text)
        .otherwise(pl.concat_str(step_text, pl.lit(" @"), "place"))
        .alias("step")
    )
    step_lines = texts.with_columns(place.alias("place")).join(
        kinds,
        on=["service", "masked", "place"],
        how="inner",
        nulls_equal=True,
        maintain_order="left",
    )
    return step_lines.select(*_SCHEMA)


def _callers(spans: pl.DataFrame, calls: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    callers = spans.select(
        pl.col("row").alias("parent"),
        pl.col("visit").alias("caller_visit"),
        pl.col("service").alias("caller"),
    )
    before = steps.select(
        pl.col("visit").alias("caller_visit"),
        pl.col("next").alias("call"),
        pl.col("step").alias("after"),
    )
    called = calls.join(callers, on="parent", how="inner").join(
        before, on=["caller_visit", "call"], how="left"
    )
    context = pl.concat_str("caller", pl.lit(" after "), pl.col("after").fill_null(""))
    return called.select(pl.col("row").alias("visit"), "caller_visit", context.alias("context"))
