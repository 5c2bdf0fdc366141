"""Series as OpenMetrics text, which `promtool tsdb create-blocks-from openmetrics` reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proving_ground.plain.generator.flow import Clock, Floats

BLOCK_S = 7200
"""promtool reads its whole input again for each block of two hours, so that each gets a file."""
OFFSETS = 3
"""Targets are scraped at that many different moments of an interval."""


@dataclass
class Exposition:
    """All series of a system, by metric. `end` is the time of the last sample, in Unix seconds."""

    clock: Clock
    end: int
    coarse: int = 1
    """Every how many samples the slower targets are scraped: kubelets, nodes, exporters."""
    metrics: dict[str, list[tuple[str, Floats, bool, int]]] = field(default_factory=dict)
    """By metric: labels, values, whether the target is a slow one, and its offset."""

    def gauge(
        self, name: str, labels: Mapping[str, str], values: ArrayLike, *, slow: bool = True
    ) -> None:
        """A series; NaN where the target has it not."""
        series = np.broadcast_to(np.asarray(values, dtype=float), self.clock.seconds.shape)
        if not np.isnan(series).all():
            # All series of a target are scraped at once: buckets must not overtake each other.
            offset = zlib.crc32(labels["instance"].encode()) % OFFSETS
            self.metrics.setdefault(name, []).append((label_text(labels), series, slow, offset))

    def counter(
        self,
        name: str,
        labels: Mapping[str, str],
        increments: NDArray[Any],
        *,
        resets: Floats | None = None,
        slow: bool = False,
        is_born_late: bool = False,
    ) -> None:
        """What was counted between samples, added up. `resets` is how often its process restarted.
        A series that `is_born_late` is not there before its first count."""
        total = np.cumsum(np.nan_to_num(increments))
        if is_born_late:
            increments = np.where(total > 0, increments, np.nan)
        if resets is not None:
            for life in np.unique(resets)[1:]:
                is_later = resets >= life
                total = np.where(is_later, total - total[np.argmax(is_later) - 1], total)
        self.gauge(name, labels, np.where(np.isnan(increments), np.nan, total), slow=slow)

    def blocks(self) -> Iterator[str]:
        """The text of each block that a Prometheus keeps."""
        times = self.end + self.clock.seconds
        numbers = (times // BLOCK_S).astype(int)
        for number in np.unique(numbers):
            (steps,) = np.nonzero(numbers == number)
            yield self.text(steps)

    def text(self, steps: NDArray[Any]) -> str:
        """The samples of these steps, one series after the other."""
        seconds = self.end + self.clock.seconds[steps]
        step_s = self.clock.step_s
        stamps = []
        for offset in range(OFFSETS):
            late = (seconds - offset * step_s / OFFSETS).tolist()
            stamps.append([f" {at:.3f}\n" for at in late])
        parts = []
        for name in sorted(self.metrics):
            for labels, values, slow, offset in self.metrics[name]:
                chosen = slice(None, None, self.coarse if slow else 1)
                parts.append(lines(name + labels, values[steps][chosen], stamps[offset][chosen]))
        return "".join(parts) + "# EOF\n"


def lines(series: str, values: Floats, stamps: list[str]) -> str:
    """A series' samples without those that are NaN."""
    present = ~np.isnan(values)
    if not present.all():
        stamps = [stamp for stamp, is_there in zip(stamps, present, strict=True) if is_there]
        values = values[present]
    numbers: list[float] = np.round(values, 5).tolist()
    return "".join([f"{series} {number}{at}" for number, at in zip(numbers, stamps, strict=True)])


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as they are written; empty ones are the same as none."""
    pairs = [f'{name}="{value}"' for name, value in sorted(labels.items()) if value]
    return "{" + ",".join(pairs) + "}" if pairs else ""
