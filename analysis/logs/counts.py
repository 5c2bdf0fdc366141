"""The distinct masked lines of a case with their counts, read in chunks, so that a million lines
need bounded memory.

Counts are kept for the incident and for pieces of the baseline as long as the incident, which show
how bursty a line usually is. A service keeps at most `MAX_LINES_PER_SERVICE` different lines: more
are grouped, then the rarest are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import ORIGIN, empty
from faultline.analysis.case.windows import Windows, log_windows
from faultline.analysis.logs.lines import described, log_events
from faultline.analysis.logs.miner import OTHER, group_lines
from faultline.analysis.vocabulary import Window

UNKNOWN_SERVICE = "unknown service"
CHUNK = 100_000
"""Rows that are read at once. A stack trace whose rows lie in two chunks is read as two events."""
MAX_LINES_PER_SERVICE = 5_000
MAX_DISTINCT = 100_000
BLOCK = 10_000
"""Different lines that are grouped at once when there are too many."""
MAX_HOSTS = 4
PIECE = "piece_"
MIN_PIECES, MAX_PIECES = 4, 12
_CODE = (
    r"(?i)(?:Xid \([^)]{0,40}\): |(?:status(?:[ _]?code)?|exit ?code|errno|error(?: "
    r"code)?)[\"']?[:= ]{1,3}"
    r"|HTTP/\d(?:\.\d)?\"? )(\d{1,5})\b"
)
"""Numbers that say what failed. The masks take them off, so they are kept beside."""
_REASON = r'"reason":\s{0,4}"([A-Za-z]{1,60})"'
"""The reason of a Kubernetes event, in a line's attributes."""
_HOST = (
    r'"(?:host|host\.name|hostname|node|node_name|k8s\.node|k8s\.node\.name|kubernetes\.node_name'
    r'|kubernetes\.host)"'
    r':\s{0,4}"([^"\\]{1,100})"'
)
"""OpenTelemetry's host.name and k8s.node.name, and the keys of Fluent Bit, Datadog and Loki."""
_KEY = ("service", "masked", "code", "reason", "error_class", "place")


@dataclass(frozen=True)
class CountedLogLines:
    """The distinct masked lines of a case, and how long its windows are."""

    lines: pl.DataFrame
    """service, masked, code, reason, error_class, place, n, n_before, first, example, frame,
    is_error, hosts, items, piece_0, piece_1, ..., service_n, service_before."""
    seconds: tuple[float, float]
    """Of the baseline, of the incident."""
    evidence: tuple[str, ...]
    """Ids of all items of log lines."""
    cut: int = 0
    """Lines that are only counted with the rest of their service."""


def counted_lines(case: Case) -> CountedLogLines:
    """The case's log lines, each masked line once; no rows without logs."""
    windows = log_windows(case)
    baseline_s = sum(window.seconds for window in windows.baseline)
    lines = distinct_lines(case.logs, windows)
    rest = pl.col("masked") == OTHER
    cut = int(lines.filter(rest).select(pl.col("n", "n_before").sum()).sum_horizontal().sum())
    seconds = (baseline_s, windows.search.seconds)
    return CountedLogLines(lines, seconds, case.evidence_ids("logs"), cut)


def row_items(row: Mapping[str, object], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The items that brought the lines which a row counts, where the lines say so."""
    items = row["items"]
    return tuple(items) if isinstance(items, list) and items else otherwise


def distinct_lines(logs: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Per service and masked line: counts in baseline and incident, first time seen, an example,
    whether an error.

    `code`, `reason`, the class of an error and its place in code keep apart lines that only differ
    in what failed. `piece_0` ... are the counts in parts of the baseline, oldest first. `hosts` are
    up to `MAX_HOSTS` that the incident's lines name, `items` the ids of what brought the lines.
    `service_n` and `service_before` are the service's counts of all lines.
    """
    return count_chunks(logs.iter_slices(CHUNK) if logs.height else [logs], windows)


def count_chunks(chunks: Iterable[pl.DataFrame], windows: Windows) -> pl.DataFrame:
    """`distinct_lines` of rows that arrive in chunks. Memory is that of one chunk and of the
    different lines."""
    parts = baseline_pieces(windows)
    total: pl.DataFrame | None = None
    for chunk in chunks:
        counts = _bounded(_counts(chunk, windows, parts))
        # Merge after each chunk: memory stays that of one chunk and of the different lines.
        total = counts if total is None else _bounded(_merged(pl.concat([total, counts])))
    if total is None:
        # No chunk at all still has to give the table's columns.
        return distinct_lines(empty("logs"), windows)
    return total.with_columns(
        pl.col("n").sum().over("service").alias("service_n"),
        pl.col("n_before").sum().over("service").alias("service_before"),
    )


def baseline_pieces(windows: Windows) -> list[Window]:
    """The baseline in parts as long as the incident where it is long enough for `MIN_PIECES`; the
    latest are kept."""
    total = sum(w.seconds for w in windows.baseline)
    if total <= 0:
        return []
    length = max(1.0, min(windows.search.seconds, total / MIN_PIECES))
    pieces: list[Window] = []
    for window in sorted(windows.baseline, key=lambda w: w.start):
        fit = max(1, round(window.seconds / length))
        step = (window.end - window.start) / fit
        first = max(0, fit - MAX_PIECES)
        for i in range(first, fit):
            start = window.start + i * step
            pieces.append(Window(start=start, end=window.start + (i + 1) * step))
    return pieces[-MAX_PIECES:]


def _counts(logs: pl.DataFrame, windows: Windows, parts: list[Window]) -> pl.DataFrame:
    rows = logs.with_columns(
        windows.in_search("time").alias("now"), windows.in_baseline("time").alias("before")
    )
    rows = rows.filter(pl.col("now") | pl.col("before")).with_columns(
        pl.col("service").fill_null(UNKNOWN_SERVICE)
    )
    # Where the windows overlap, a line counts for the incident alone.
    before = pl.col("before") & ~pl.col("now")
    in_part = [before & (pl.col("time") >= w.start) & (pl.col("time") < w.end) for w in parts]
    events = log_events(rows)
    text, attributes = pl.col("text"), pl.col("attributes")
    events = events.with_columns(
        text.str.extract(_CODE, 1).alias("code"),
        attributes.str.extract(_REASON, 1).alias("reason"),
        attributes.str.extract(_HOST, 1).alias("host"),
    )
    # An example from the incident is worth more than one from before.
    example = pl.coalesce(text.filter("now").first(), text.first())
    hosts = pl.col("host").filter("now").drop_nulls().unique().sort().head(MAX_HOSTS)
    counts = events.group_by(_KEY, maintain_order=True).agg(
        pl.col("now").sum().alias("n"),
        before.sum().alias("n_before"),
        pl.col("time").filter("now").min().alias("first"),
        example.alias("example"),
        pl.col("frame").drop_nulls().last().alias("frame"),
        pl.col("level_says").max().alias("level_says"),
        hosts.alias("hosts"),
        items_of(rows).alias("items"),
        *(part.sum().alias(f"{PIECE}{i}") for i, part in enumerate(in_part)),
    )
    with_errors = described(counts.rename({"example": "text"})).rename({"text": "example"})
    return _merged(with_errors.drop("level_says"))


def items_of(rows: pl.DataFrame) -> pl.Expr:
    """The ids of the items that brought a group's lines; none in a case that does not tell them."""
    if ORIGIN not in rows.columns or rows[ORIGIN].null_count() == rows.height:
        return pl.lit([], dtype=pl.List(pl.String))
    return pl.col(ORIGIN).drop_nulls().unique().sort()


def joined_lists(name: str) -> pl.Expr:
    """The different values of all lists of a group."""
    return pl.col(name).list.explode().drop_nulls().unique().sort()


def _merged(counts: pl.DataFrame) -> pl.DataFrame:
    summed = [c for c in counts.columns if c in ("n", "n_before") or c.startswith(PIECE)]
    return (
        counts.group_by(_KEY, maintain_order=True)
        .agg(
            pl.col(summed).sum(),
            pl.col("first").min(),
            pl.col("example")
            .sort_by(pl.col("n") > 0, descending=True, maintain_order=True)
            .first(),
            pl.col("frame").drop_nulls().last(),
            pl.col("is_error").any(),
            joined_lists("hosts").head(MAX_HOSTS),
            joined_lists("items"),
        )
        .select(counts.columns)
        .sort(_KEY)
    )


def _bounded(counts: pl.DataFrame) -> pl.DataFrame:
    """At most `MAX_LINES_PER_SERVICE` different lines per service: first as templates, then the
    rarest as one rest, errors last.

    No count is lost: the rest holds the counts of the lines that are not distinguished.
    """
    services = max(1, counts["service"].n_unique())
    limit = max(20, min(MAX_LINES_PER_SERVICE, MAX_DISTINCT // services))
    if counts.height <= limit:
        return counts
    many = pl.len().over("service") > limit
    # The first grouping is costly, so only services that exceed the limit pay for it.
    if counts.select(many.any()).item():
        templates = [counts.filter(~many)]
        templates += map(_as_templates, counts.filter(many).partition_by("service"))
        counts = _merged(pl.concat(templates))
    # Adding the number of lines lifts every error above all lines that are none.
    often = (pl.col("n") + pl.col("n_before")) + pl.col("is_error") * pl.len()
    place = often.rank("ordinal", descending=True).over("service")
    over = counts.select(((place > limit) & many).alias("over"))["over"]
    if not over.any():
        return counts
    # The rest of an earlier chunk joins the new one.
    over = over | (counts["masked"] == OTHER)
    rest = counts.filter(over).with_columns(
        pl.lit(OTHER).alias("masked"),
        *(pl.lit(None, dtype=pl.String).alias(c) for c in _KEY[2:]),
        pl.lit(None, dtype=pl.String).alias("frame"),
        pl.lit(value=False).alias("is_error"),
    )
    return _merged(pl.concat([counts.filter(~over), rest]))


def _as_templates(counts: pl.DataFrame) -> pl.DataFrame:
    """The lines of one service by their templates: words that the masks do not know as values are
    found to be some."""
    words: list[str] = []
    for block in counts["masked"].to_frame().iter_slices(BLOCK):
        numbers, texts = group_lines(block["masked"].to_list(), BLOCK)
        words += [texts[number] for number in numbers]
    return counts.with_columns(pl.Series("masked", words, dtype=pl.String))
