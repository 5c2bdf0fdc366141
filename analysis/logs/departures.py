"""How far lines of the incident differ from the baseline: by count, by burstiness, and by how often
new lines come.

Counts are compared as overdispersed counts: variance m + phi m^2, with phi from the baseline's own
pieces (negative binomial, as in Anscombe 1949). A new line is worth less where the baseline keeps
bringing new lines as well: their number grows with the lines read by Heaps' law (Heaps 1978),
fitted to the two halves of the baseline.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from faultline.analysis.kinds.finding_kinds import LOG_NEW, LOG_SURGE, LOG_VANISHED

NEW, SURGE, VANISHED = LOG_NEW.name, LOG_SURGE.name, LOG_VANISHED.name
SURGE_RATIO = 3.0
SURGE_SIGMAS = 4.0
VANISHED_RATIO = 0.5
VANISHED_SIGMAS = 3.0
MIN_BASELINE_LINES = 5
"""A service with fewer baseline lines has no known vocabulary: its new templates count half."""
LEAST = 0.2
"""A new line keeps this much however many new ones the baseline's habits explain."""
MAX_GROWTH = 4.0
"""The law is not extrapolated to more than this many times the baseline."""


@dataclass(frozen=True)
class StandsOut:
    """How lines of the incident differ from the baseline's."""

    kind: str
    """NEW, SURGE or VANISHED."""
    strength: float
    size: float | None
    """Of a surge the ratio of rates, of vanished lines how many were expected."""


class _Expected(NamedTuple):
    """A count that the baseline lets expect.

    `spread` is the factor of the squared mean in the variance of the difference of incident and
    baseline.
    """

    mean: float
    spread: float = 0.0


def stands_out(row: Mapping[str, object], seconds: tuple[float, float]) -> StandsOut | None:
    """Compare `n` with `n_before`, by time and by the service's lines; None where the baseline
    explains the count.

    `pieces` and `service_pieces`, where given, are the counts of the line and of its service in
    parts of the baseline; `surprise` in [0, 1] is what the finding is worth.
    """
    count, before = _int(row["n"]), _int(row["n_before"])
    is_error = bool(row["is_error"])
    surprise = row.get("surprise")
    worth = float(surprise) if isinstance(surprise, (int, float)) else 1.0
    if count and not before:
        has_vocabulary = _int(row["service_before"]) >= MIN_BASELINE_LINES
        worth *= 1.0 if has_vocabulary else 0.5
        strength = (1.0 - math.exp(-count / 3.0)) * (1.0 if is_error else 0.5)
        return StandsOut(NEW, strength * worth, None)
    return _by_count(count, _expected(row, before, seconds), is_error=is_error, worth=worth)


def _by_count(
    count: int, expected: Sequence[_Expected], *, is_error: bool, worth: float
) -> StandsOut | None:
    """A surge or a loss, by the expectation that makes it least remarkable in size."""
    sigmas = [_sigmas(count, expectation) for expectation in expected]
    # The larger expectation decides on a surge, and the smaller one on a loss.
    most = max(expectation.mean for expectation in expected)
    least = min(expectation.mean for expectation in expected)
    if count >= SURGE_RATIO * most and max(sigmas) >= SURGE_SIGMAS:
        strength = (1.0 - math.exp(-max(sigmas) / 8.0)) * (0.9 if is_error else 0.5)
        return StandsOut(SURGE, strength * worth, count / most if most else None)
    if count <= VANISHED_RATIO * least and -min(sigmas) >= VANISHED_SIGMAS:
        strength = (1.0 - math.exp(min(sigmas) / 6.0)) * 0.6
        return StandsOut(VANISHED, strength * worth, least)
    return None


def _expected(
    row: Mapping[str, object], before: int, seconds: tuple[float, float]
) -> tuple[_Expected, _Expected]:
    """The count to expect by time, and by the service's lines."""
    baseline_s, incident_s = seconds
    by_time = before * incident_s / baseline_s if baseline_s > 0 else 0.0
    service_before = max(1, _int(row["service_before"]))
    by_share = before * _int(row["service_n"]) / service_before
    pieces, totals = row.get("pieces"), row.get("service_pieces")
    if not isinstance(pieces, list) or not isinstance(totals, list):
        return _Expected(by_time), _Expected(by_share)
    # One piece shows no spread, and pieces that do not add up were cut off.
    if len(pieces) < 2 or sum(pieces) != before:
        return _Expected(by_time), _Expected(by_share)
    pieces_in_incident = 1.0
    if baseline_s > 0:
        pieces_in_incident = max(1.0, incident_s * len(pieces) / baseline_s)
    parts = 1.0 / pieces_in_incident + 1.0 / len(pieces)
    even = [before / len(pieces)] * len(pieces)
    shared = [total * before / service_before for total in totals]
    return (
        _Expected(by_time, parts * overdispersion(pieces, even)),
        _Expected(by_share, parts * overdispersion(pieces, shared)),
    )


def overdispersion(counts: Sequence[int], expected: Sequence[float]) -> float:
    """Squared deviations beyond Poisson's, over the squared means: 0 for counts that vary as chance
    does."""
    beyond = squares = 0.0
    for count, mean in zip(counts, expected, strict=True):
        beyond += (count - mean) ** 2 - mean
        squares += mean**2
    return max(0.0, beyond / squares) if squares else 0.0


def new_lines_expected(templates: pl.DataFrame) -> pl.DataFrame:
    """Per service and `is_error`: templates that are new in the incident, and how many the baseline
    lets expect.

    With V different templates after the whole baseline and W after its first half, V(t) ~ t^b with
    b = log2(V / W).
    """
    half = _pieces(templates) // 2
    growth_of_service = pl.col("service_n").first() / pl.col("service_before").first().clip(1)
    counted = templates.group_by("service", "is_error").agg(
        _is_new().sum().alias("seen"),
        (pl.col("n_before") > 0).sum().alias("whole"),
        (pl.col("pieces").list.head(half).list.sum() > 0).sum().alias("half"),
        growth_of_service.alias("growth"),
    )
    whole, first = pl.col("whole").cast(pl.Float64), pl.col("half").cast(pl.Float64)
    # One half is added on both sides: a service without lines in the first half has no logarithm.
    slope = ((whole + 0.5) / (first + 0.5)).log(2).clip(0.0, 1.0)
    growth = pl.col("growth").clip(0.0, MAX_GROWTH)
    expected = whole * ((1.0 + growth) ** slope - 1.0)
    return counted.with_columns(expected.alias("expected"))


def _pieces(templates: pl.DataFrame) -> int:
    """Into how many parts the baseline was divided."""
    parts = templates["pieces"].list.len().max()
    return parts if isinstance(parts, int) else 0


def _is_new() -> pl.Expr:
    return (pl.col("n") > 0) & (pl.col("n_before") == 0)


def surprises(
    templates: pl.DataFrame, seconds: tuple[float, float], names: re.Pattern[str] | None
) -> pl.DataFrame:
    """The templates with `surprise`, `service_pieces`, and `names`: another service that the line
    names.

    A new line is worth the share that neither its service's habit of new lines nor the other
    services' baseline explains. What is no error and departs in many services at once is other
    traffic, and tells them less apart.
    """
    rates = new_lines_expected(templates).select("service", "is_error", "seen", "expected")
    rows = templates.join(rates, on=["service", "is_error"], how="left", maintain_order="left")
    # The rows with `names`, and with `says`: the template whatever service it names.
    named, says = [], []
    for service, example, text in rows.select("service", "example", "text").iter_rows():
        other, template = _about(str(service), str(example), str(text), names)
        named.append(other)
        says.append(template)
    rows = rows.with_columns(
        pl.Series("names", named, dtype=pl.String), pl.Series("says", says, dtype=pl.String)
    )
    # What a line is worth: 1 where it is not new.
    baseline_s, incident_s = seconds
    ratio = incident_s / baseline_s if baseline_s > 0 else 0.0
    same_line = ("says", "error_class")
    before, now = pl.col("n_before").sum().over(*same_line), pl.col("n").sum().over(*same_line)
    fill_nan = (before * ratio / now).fill_nan(0.0)
    habit = pl.col("expected") / pl.col("seen").clip(lower_bound=1)
    unexplained = (1.0 - fill_nan).clip(LEAST, 1.0) * (1.0 - habit).clip(LEAST, 1.0)
    rows = rows.with_columns(pl.when(_is_new()).then(unexplained).otherwise(1.0).alias("surprise"))
    rows = rows.join(_service_pieces(rows), on="service", how="left", maintain_order="left")

    kinds = []
    for row in rows.iter_rows(named=True):
        out = stands_out(row, seconds)
        kinds.append(out.kind if out is not None else None)
    rows = rows.with_columns(pl.Series("kind", kinds, dtype=pl.String))
    # An error counts fully in however many services it appears; other lines follow the traffic.
    services = pl.col("service").n_unique().over("kind", "is_error").sqrt()
    counts_fully = pl.col("is_error") | pl.col("kind").is_null()
    apart = pl.when(counts_fully).then(1.0).otherwise(services)
    return rows.with_columns((pl.col("surprise") / apart).alias("surprise"))


def _service_pieces(rows: pl.DataFrame) -> pl.DataFrame:
    """service, service_pieces: the lines of each service in the parts of the baseline."""
    summed = []
    for part in range(_pieces(rows)):
        lines = pl.col("pieces").list.get(part, null_on_oob=True).sum()
        summed.append(lines.alias(str(part)))
    pieces = pl.lit([], dtype=pl.List(pl.UInt32))
    if summed:
        pieces = pl.concat_list(pl.exclude("service"))
    by_service = rows.group_by("service", maintain_order=True).agg(*summed)
    return by_service.select("service", pieces.alias("service_pieces"))


def _about(
    service: str, example: str, text: str, names: re.Pattern[str] | None
) -> tuple[str | None, str]:
    """The other service that a line names, and its template whatever service it names."""
    if names is None:
        return None, text
    matches = [name for name in names.findall(example) if name != service]
    return matches[0] if matches else None, names.sub("<service>", text)


def _sigmas(count: float, expected: _Expected) -> float:
    # Add one, so that an expectation of none has a spread too.
    variance = expected.mean + 1.0 + expected.spread * expected.mean**2
    return (count - expected.mean) / math.sqrt(variance)


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
