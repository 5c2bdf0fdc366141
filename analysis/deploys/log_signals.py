"""The error lines of a service as series: how many there are, and how many of a kind that had not
been seen before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from faultline.analysis.deploys.judged_signals import JudgedSeries
from faultline.analysis.deploys.verdict import Group
from faultline.analysis.logs.lines import described, log_events
from faultline.analysis.logs.miner import key_words

Floats = NDArray[np.float64]

ERROR_LINES, NEW_ERROR_LINES = "error_lines", "new_error_lines"
STEP_S = 30.0
FORGOTTEN = 0.34
"""Share of the baseline in which every line is new because nothing was seen before: it only
teaches."""


@dataclass(frozen=True)
class LogSignals:
    """The series, and the commonest line that is new in the judged window."""

    series: tuple[JudgedSeries, ...]
    newest: str | None


def log_signals(logs: pl.DataFrame, service: str, start: float, end: float) -> LogSignals:
    """Error lines per second from the first line on; nothing where no line is known."""
    rows = logs.filter(pl.col("service") == service)
    first = rows["time"].dt.epoch("ns").min() if rows.height else None
    if first is None:
        return LogSignals((), None)
    begin = float(first) / 1e9  # type: ignore[arg-type]
    errors = described(log_events(rows)).filter("is_error")
    times = (errors["time"].dt.epoch("ns") / 1e9).to_numpy().astype(np.float64)
    kinds = [" ".join(key_words(text)) for text in errors["masked"]]
    length = end - start
    first_times: dict[str, float] = {}
    for time, kind in sorted(zip(times.tolist(), kinds, strict=True)):
        first_times.setdefault(kind, time)
    taught = begin + FORGOTTEN * (start - begin)
    # Counted from the judged window backwards, as its windows are.
    windows = np.floor((times - start) / length)
    born = np.floor((np.array([first_times[kind] for kind in kinds]) - start) / length)
    is_new = (windows == born) & (times >= taught)
    signals = [_per_second(ERROR_LINES, times, begin, end)]
    # Less than one quiet window cannot show how often new lines come anyway.
    if start - taught > length:
        signals.append(_per_second(NEW_ERROR_LINES, times[is_new], taught, end))
    inside = is_new & (times >= start) & (times <= end)
    commonest: str | None
    remaining_errors = errors.filter(pl.Series(inside, dtype=pl.Boolean))
    if not remaining_errors.height:
        commonest = None
    else:
        counts = remaining_errors.group_by("masked").agg(
            pl.len().alias("n"), pl.col("text").first()
        )
        commonest = str(counts.sort("n", "masked", descending=[True, False])["text"][0])
    return LogSignals(tuple(signals), commonest)


def _per_second(signal: str, times: Floats, begin: float, end: float) -> JudgedSeries:
    count = max(1, int((end - begin) // STEP_S))
    inside = times[(times >= end - count * STEP_S) & (times <= end)]
    # Count steps backwards from the end, so that the last one is whole.
    places = np.clip(((end - inside) // STEP_S).astype(np.int64), 0, count - 1)
    counts = np.bincount(places, minlength=count)[::-1] / STEP_S
    at = (end - (np.arange(count)[::-1] + 0.5) * STEP_S).astype(np.float64)
    return JudgedSeries(signal, "1/s", Group.LOGS, at, counts, per_second=True)
