"""`series`: the metrics of a service beside their baseline, each as levels, ratio, onset and
sparkline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from analysis.case.folder import Case
from analysis.case.observations import KIND
from analysis.case.windows import metric_windows
from analysis.metrics.baseline_comparison import compare
from analysis.metrics.series import metric_blocks
from analysis.metrics.shifts import KIND as SHIFT
from analysis.vocabulary import Finding
from analysis.wording.phrases import number, plain, rounded
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Tool,
    from_evidence,
    known_service,
    moment,
    sparkline,
)
from bot.runtime.threads import in_thread

MAX_SERIES = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SeriesArguments(Arguments):
    service: str = Field(description="The service, host or job whose metrics are meant.")
    signal: str | None = Field(
        default=None, description="A part of the signal's name, or null for all of them."
    )


async def series(bench: Bench, asked: SeriesArguments) -> Found:
    """The series of a service that departed most, first."""
    service = known_service(bench, asked.service)
    rows = await in_thread(_compared, bench.case, service, asked.signal)
    if not rows:
        held = sorted(
            set(bench.case.metrics.filter(pl.col("service") == service)["signal"].to_list())
        )[:30]
        said = (
            f"its signals are {', '.join(held)}"
            if held
            else "the case holds no metrics of it: `collect` may"
        )
        raise NotFound(f"no series of {service} with points before and in the incident; {said}")
    shown = [_told(bench, service, row) for row in rows[:MAX_SERIES]]
    note = (
        f"{len(rows) - MAX_SERIES} more series; ask with `signal`" if len(rows) > MAX_SERIES else ""
    )
    return Found(shown, from_evidence(bench.case.evidence, "metrics"), note)


def _compared(case: Case, service: str, signal: str | None) -> list[dict[str, Any]]:
    metrics = case.metrics.filter(pl.col("service") == service)
    if signal:
        metrics = metrics.filter(
            pl.col("signal").str.to_lowercase().str.contains(signal.lower(), literal=True)
        )
    windows = metric_windows(case)
    start = windows.recent or min((w.start for w in windows.baseline), default=windows.search.start)
    found: list[dict[str, Any]] = []
    for block in metric_blocks(metrics, windows):
        compared = compare(block)
        for n, (_, name, unit, labels) in enumerate(compared.keys.iter_rows()):
            ceiling = float(compared.ceiling[n])
            before, level = (
                float(compared.centre[n]),
                _level(block.values[n], compared.level[n], compared.departed[n]),
            )
            if np.isfinite(ceiling):
                before, level = ceiling - before, ceiling - level
            own = metrics.filter(pl.col("signal") == name, pl.col("labels").fill_null("") == labels)
            own = own.filter(pl.col("time") >= start, pl.col("time") <= windows.search.end)
            departed = bool(compared.departed[n])
            onset = (
                _EPOCH + timedelta(microseconds=int(compared.onset_ns[n]) // 1000)
                if departed
                else None
            )
            found.append(
                {
                    "signal": name,
                    "unit": unit or None,
                    "labels": plain(labels, 200) or None,
                    "before": before,
                    "now": level,
                    "departed": departed,
                    "sigmas": min(float(compared.sigmas[n]), 1e6) if departed else 0.0,
                    "onset": onset,
                    "sparkline": sparkline(own["time"], own["value"], start, windows.search.end),
                }
            )
    return sorted(found, key=lambda r: (-r["sigmas"], r["signal"], r["labels"] or ""))


def _level(values: Any, departed_level: Any, departed: Any) -> float:
    """The level of the departure; without one, the middle of what was searched."""
    return float(departed_level) if departed else float(np.nanmedian(values))


def _told(bench: Bench, service: str, row: dict[str, Any]) -> dict[str, Any]:
    same = (
        f
        for f in bench.diagnosis.findings
        if (f.kind, f.subject, f.signal) == (SHIFT, service, row["signal"])
    )
    finding = next(same, None) or bench.observe(_observation(bench, service, row))
    return {
        "cite": finding.id or None,
        "says": finding.sentence,
        "labels": row["labels"],
        "unit": row["unit"],
        "baseline": rounded(row["before"]),
        "incident": rounded(row["now"]),
        "departed": row["departed"],
        "onset": moment(row["onset"]),
        "sparkline": row["sparkline"],
    }


def _observation(bench: Bench, service: str, row: dict[str, Any]) -> Finding:
    before, now, signal = row["before"], row["now"], row["signal"]
    numbers = {"baseline": rounded(before), "incident": rounded(now)}
    unit = f" {plain(row['unit'], 12)}" if row["unit"] else ""
    said = f"{plain(service)} {plain(signal)} "
    if row["departed"]:
        said += (
            f"{'rose' if now > before else 'fell'} from {number(before)} to {number(now)}{unit}."
        )
    else:
        said += (
            f"stayed near its baseline: {number(before)} before, {number(now)} in the "
            f"incident{unit}."
        )
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=signal,
        onset=row["onset"],
        strength=0.0,
        sentence=said,
        numbers=numbers,
        evidence=bench.case.evidence_ids("metrics"),
        series={"table": "metrics", "service": service, "signal": signal},
    )


SERIES = Tool(
    "series",
    "Metrics of a service against their baseline: levels, whether and when they departed, "
    "sparkline. Each row names "
    "the finding to cite.",
    SeriesArguments,
    series,
)
