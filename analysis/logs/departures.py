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

import polars as pl

from analysis.kinds.finding_kinds import LOG_NEW, LOG_SURGE, LOG_VANISHED

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
"""The law is not stretched to more than so many times the baseline."""


@dataclass(frozen=True)
class StandsOut:
    """How lines of the incident differ from the baseline's."""

    kind: str
    """NEW, SURGE or VANISHED."""
    strength: float
    size: float | None
    """Of a surge the ratio of rates, of vanished lines how many were expected."""


def stands_out(row: Mapping[str, object], seconds: tuple[float, float]) -> StandsOut | None:
    """Compare `n` with `n_before`, by time and by the service's lines; None where the baseline
    explains the count.

    `pieces` and `service_pieces`, where given, are the counts of the line and of its service in
    parts of the baseline; `surprise` in [0, 1] is what the finding is worth.
    """
    n, before = _int(row["n"]), _int(row["n_before"])
    is_error = bool(row["is_error"])
    surprise = row.get("surprise")
    worth = float(surprise) if isinstance(surprise, (int, float)) else 1.0
    if n and not before:
        worth *= 1.0 if _int(row["service_before"]) >= MIN_BASELINE_LINES else 0.5
        return StandsOut(NEW, (1.0 - math.exp(-n / 3.0)) * (1.0 if is_error else 0.5) * worth, None)
    expected = _expected(row, before, seconds)
    sigmas = [_sigmas(n, mean, spread) for mean, spread in expected]
    more, less = max(e[0] for e in expected), min(e[0] for e in expected)
    if n >= SURGE_RATIO * more and max(sigmas) >= SURGE_SIGMAS:
        strength = (1.0 - math.exp(-max(sigmas) / 8.0)) * (0.9 if is_error else 0.5)
        return StandsOut(SURGE, strength * worth, n / more if more else None)
    if n <= VANISHED_RATIO * less and -min(sigmas) >= VANISHED_SIGMAS:
        return StandsOut(VANISHED, (1.0 - math.exp(min(sigmas) / 6.0)) * 0.6 * worth, less)
    return None


def _expected(
    row: Mapping[str, object], before: int, seconds: tuple[float, float]
) -> list[tuple[float, float]]:
    """The count that the baseline lets expect, by time and by the service's lines, each with its
    spread.

    The spread is the factor of the squared mean in the variance of the difference of incident and
    baseline.
    """
    by_time = before * seconds[1] / seconds[0] if seconds[0] > 0 else 0.0
    service_before = max(1, _int(row["service_before"]))
    by_share = before * _int(row["service_n"]) / service_before
    pieces, totals = row.get("pieces"), row.get("service_pieces")
    if (
        not isinstance(pieces, list)
        or not isinstance(totals, list)
        or len(pieces) < 2
        or sum(pieces) != before
    ):
        return [(by_time, 0.0), (by_share, 0.0)]
    in_incident = max(1.0, seconds[1] * len(pieces) / seconds[0]) if seconds[0] > 0 else 1.0
    parts = 1.0 / in_incident + 1.0 / len(pieces)
    even = [before / len(pieces)] * len(pieces)
    shared = [total * before / service_before for total in totals]
    return [
        (by_time, parts * overdispersion(pieces, even)),
        (by_share, parts * overdispersion(pieces, shared)),
    ]


def overdispersion(counts: Sequence[int], expected: Sequence[float]) -> float:
    """Squared deviations beyond Poisson's, over the squared means: 0 for counts that vary as chance
    does."""
    beyond = sum((seen - mean) ** 2 - mean for seen, mean in zip(counts, expected, strict=True))
    squares = sum(mean**2 for mean in expected)
    return max(0.0, beyond / squares) if squares else 0.0


def new_lines_expected(templates: pl.DataFrame) -> pl.DataFrame:
    """Per service and `is_error`: templates that are new in the incident, and how many the baseline
    lets expect.

    With V different templates after the whole baseline and W after its first half, V(t) ~ t^b with
    b = log2(V / W).
    """
    parts = templates["pieces"].list.len().max()
    half = (int(parts) if isinstance(parts, int) else 0) // 2
    early = pl.col("pieces").list.head(half).list.sum() > 0
    counted = templates.group_by("service", "is_error").agg(
        ((pl.col("n") > 0) & (pl.col("n_before") == 0)).sum().alias("seen"),
        (pl.col("n_before") > 0).sum().alias("whole"),
        early.sum().alias("half"),
        (pl.col("service_n").first() / pl.col("service_before").first().clip(lower_bound=1)).alias(
            "growth"
        ),
    )
    whole, first = pl.col("whole").cast(pl.Float64), pl.col("half").cast(pl.Float64)
    slope = ((whole + 0.5) / (first + 0.5)).log(2).clip(0.0, 1.0)
    growth = pl.col("growth").clip(0.0, MAX_GROWTH)
    return counted.with_columns((whole * ((1.0 + growth) ** slope - 1.0)).alias("expected"))


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
    about = [
        _about(str(s), str(e), str(t), names)
        for s, e, t in rows.select("service", "example", "text").iter_rows()
    ]
    rows = rows.with_columns(
        pl.Series("names", [a[0] for a in about], dtype=pl.String),
        pl.Series("says", [a[1] for a in about], dtype=pl.String),
    )
    ratio = seconds[1] / seconds[0] if seconds[0] > 0 else 0.0
    known = (
        pl.col("n_before").sum().over("says", "error_class")
        * ratio
        / pl.col("n").sum().over("says", "error_class")
    )
    habit = pl.col("expected") / pl.col("seen").clip(lower_bound=1)
    new = (pl.col("n") > 0) & (pl.col("n_before") == 0)
    unexplained = (1.0 - known.fill_nan(0.0)).clip(LEAST, 1.0) * (1.0 - habit).clip(LEAST, 1.0)
    rows = rows.with_columns(pl.when(new).then(unexplained).otherwise(1.0).alias("surprise"))
    rows = rows.join(_service_pieces(rows), on="service", how="left", maintain_order="left")
    kinds = [
        out.kind if (out := stands_out(row, seconds)) else None
        for row in rows.iter_rows(named=True)
    ]
    rows = rows.with_columns(pl.Series("kind", kinds, dtype=pl.String))
    together = pl.col("service").n_unique().over("kind", "is_error").sqrt()
    apart = pl.when(pl.col("is_error") | pl.col("kind").is_null()).then(1.0).otherwise(together)
    return rows.with_columns((pl.col("surprise") / apart).alias("surprise"))


def _service_pieces(rows: pl.DataFrame) -> pl.DataFrame:
    """service, service_pieces: the lines of each service in the parts of the baseline."""
    parts = rows["pieces"].list.len().max()
    summed = [
        pl.col("pieces").list.get(i, null_on_oob=True).sum()
        for i in range(parts if isinstance(parts, int) else 0)
    ]
    listed = pl.concat_list(summed) if summed else pl.lit([], dtype=pl.List(pl.UInt32))
    return (
        rows.group_by("service", maintain_order=True)
        .agg(*(s.alias(f"{i}") for i, s in enumerate(summed)))
        .select(
            "service",
            (pl.concat_list(pl.exclude("service")) if summed else listed).alias("service_pieces"),
        )
    )


def _about(
    service: str, example: str, text: str, names: re.Pattern[str] | None
) -> tuple[str | None, str]:
    """The other service that a line names, and its template whatever service it names."""
    if names is None:
        return None, text
    named = next((name for name in names.findall(example) if name != service), None)
    return named, names.sub("<service>", text)


def _sigmas(seen: float, expected: float, spread: float) -> float:
    return (seen - expected) / math.sqrt(expected + 1.0 + spread * expected**2)


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
