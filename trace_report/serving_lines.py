"""Prefill and decode of an inference server on the terminal: one line per phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from faultline.trace_report.analysis_run import RankResult


def serving_lines(ranks: Sequence[RankResult]) -> list[str]:
    """Median of a pass on the host, mean on the device. The phases are those of the first rank that
    has any: ranks of a server run the same passes."""
    for rank in ranks:
        rows = rank.rows.get("serving", ())
        if rows:
            return [_line(row) for row in rows]
    return []


def _line(row: Mapping[str, Any]) -> str:
    count = row["passes"]
    parts = [
        f"{row['server']} {row['phase']}: {count:,} pass{'es' if count != 1 else ''}",
        f"{row['pass_median_ns'] / 1e6:,.2f} ms on the host",
    ]
    if row["device_ns"]:
        parts.append(f"{row['device_ns'] / count / 1e6:,.2f} on the device")
    for what in ("prefill", "decode"):
        if row[f"{what}_tokens"]:
            parts.append(f"{row[f'{what}_tokens']:,} {what} tokens")
    parts.append(f"{row['kernels_per_pass']:,g} kernels a pass")
    return ", ".join(parts)
