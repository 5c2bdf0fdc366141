"""Healthy windows: quiet stretches of recordings, each with an alert that should not have fired.

    python -m proving_ground.healthy_windows CASES... --out FOLDER [--most 80]

writes a case folder for each, labelled `no_active_incident`, for `faultline eval FOLDER`. A window
is as long as the case's own incident, lies in its baseline, and has the baseline before it as its
own; no two of a system overlap, not even where the same recording stands behind several cases. It
ends before the change that is to blame, if there is one, and has to be healthy by a look that the
analysis does not use: the median of the alerting signal lies within the middle 98 % of what it was
before.

The alert is the case's own, as if its threshold had been just below the signal's worst point in the
window: same source, title, service, signal and labels, and it starts at that point.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case, json_bytes, read_case
from faultline.analysis.case.tables import write_table
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.vocabulary import Scope, Verdict, Window
from faultline.evaluation.labels import NO_CHANGE, read_label, system_of
from faultline.evaluation.running import case_folders
from proving_ground.baselines.inputs import BaselineInputs, MeasuredSeries

LEAST_BEFORE = 2.0
"""A window needs this many of its lengths before it, or there is nothing to compare with. Train
Ticket's recordings hold no more."""
MIDDLE = (1.0, 99.0)
SYMPTOMS = (SignalClass.LATENCY, SignalClass.ERRORS, SignalClass.AVAILABILITY)
TIMES = {
    "metrics": "time",
    "logs": "time",
    "spans": "start",
    "changes": "time",
    "monitors": "since",
}
COMPARED = ("logs", "spans")
"""Tables that say nothing without rows of the baseline: everything in them would be new."""


@dataclass
class TakenSteps:
    """Which moments of a system's recordings are in a window already, by all that was measured at
    them: recordings are found again under other times."""

    hashes: set[int] = field(default_factory=set)

    def take(self, metrics: pl.DataFrame, window: Window) -> bool:
        """Take the moments of a window; False, and none is taken, where one is taken already."""
        inside = metrics.filter(pl.col("time") >= window.start, pl.col("time") < window.end)
        steps = inside.sort("service", "signal", "labels").group_by("time").agg("value")
        moments = {hash(tuple(values)) for values in steps["value"].to_list()}
        if not moments or moments & self.hashes:
            return False
        self.hashes |= moments
        return True


def write_healthy_windows(folders: Sequence[Path], out: Path, most: int) -> Counter[str]:
    """Write up to `most` windows of each system; returns how many of each were written."""
    by_system: dict[str, list[Path]] = {}
    for folder in folders:
        by_system.setdefault(system_of(folder.name), []).append(folder)
    written: Counter[str] = Counter()
    for system, system_folders in by_system.items():
        taken = TakenSteps()
        for case, window in _windows_in_turn(system_folders):
            if written[system] == most:
                break
            name = f"{system}-healthy-{written[system] + 1:03d}"
            if taken.take(case.metrics, window) and _write(case, window, out / name):
                written[system] += 1
    return written


def _windows_in_turn(folders: Sequence[Path]) -> Iterator[tuple[Case, Window]]:
    """The latest window of each case, then the one before it of each, and so on: alerts take
    turns."""
    candidates = []
    for folder in folders:
        try:
            candidates.append([(folder, window) for window in quiet_stretches(read_case(folder))])
        except FaultlineError as error:
            sys.stderr.write(f"{folder.name}: {error}\n")
    for turn in zip_longest(*candidates):
        for candidate in turn:
            if candidate is not None:
                yield read_case(candidate[0]), candidate[1]


def quiet_stretches(case: Case) -> Iterator[Window]:
    """Windows of the baseline that have enough of it before them, latest first."""
    windows = metric_windows(case)
    length = timedelta(seconds=case.scope.incident.seconds)
    if not length:
        return
    last = _last_healthy(case)
    for baseline in sorted(windows.baseline, key=lambda stretch: stretch.start, reverse=True):
        end = min(baseline.end, last)
        while end - length - baseline.start >= LEAST_BEFORE * length:
            yield Window(start=end - length, end=end)
            end -= length


def _last_healthy(case: Case) -> datetime:
    """When the change to blame came, since a fault may begin long before its alert."""
    label = read_label(case.path)
    to_blame = label.change if label and label.change else NO_CHANGE
    came = case.changes.filter(pl.col("id") == to_blame)["time"].min()
    return came if isinstance(came, datetime) else case.scope.incident.start


def _write(case: Case, window: Window, folder: Path) -> bool:
    """Write the window as a case; False, and nothing is left, where it is not healthy."""
    folder.mkdir(parents=True)
    scope = _scope(case, window)
    for name, column in TIMES.items():
        table: pl.DataFrame = getattr(case, name)
        rows = table.filter(pl.col(column) < window.end)
        is_new = name in COMPARED and not rows.filter(pl.col(column) < window.start).height
        if rows.height and not is_new:
            write_table(folder, name, rows)
    if case.topology.height:
        write_table(folder, "topology", case.topology)
    (folder / "scope.json").write_bytes(json_bytes(scope))
    (folder / "alert.json").write_bytes(json_bytes(case.alert))
    # Who nobody calls may be known from spans of the incident alone.
    watched = _watched(BaselineInputs(read_case(folder)), BaselineInputs(case).alerting, case)
    if not watched or not all(map(_is_in_range, watched)):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        return False
    update = {"started_at": _worst_moment(watched)}
    (folder / "alert.json").write_bytes(json_bytes(case.alert.model_copy(update=update)))
    (folder / "label.json").write_bytes(json_bytes(_label(case, window)))
    return True


def _scope(case: Case, window: Window) -> Scope:
    """The case's scope, with the window as the incident and what lay before it as the baseline."""
    scope = case.scope
    update = {
        "incident": window,
        "baseline": _before(metric_windows(case).baseline, window),
        "baseline_logs": _before(scope.baseline_logs, window),
        "baseline_spans": _before(scope.baseline_spans, window),
    }
    return scope.model_copy(update=update)


def _before(windows: Sequence[Window] | None, window: Window) -> tuple[Window, ...] | None:
    if windows is None:
        return None
    remaining_windows = []
    for stretch in windows:
        if stretch.start < window.start:
            remaining_windows.append(
                Window(start=stretch.start, end=min(stretch.end, window.start))
            )
    # An empty baseline would mean that nobody chose one.
    return tuple(remaining_windows) or None


def _watched(inputs: BaselineInputs, alerting: Sequence[str], case: Case) -> list[MeasuredSeries]:
    """The series that the alert may be about: the one that it names, else symptoms of the service
    that it names or that nobody calls."""
    series = [series for series in inputs.series if series.service in alerting[:1]]
    named = [series for series in series if series.signal == case.alert.signal]
    return named or [series for series in series if series.signal_class in SYMPTOMS]


def _is_in_range(series: MeasuredSeries) -> bool:
    low, high = np.percentile(series.before, MIDDLE)
    return bool(low <= np.median(series.now) <= high)


def _worst_moment(watched: Sequence[MeasuredSeries]) -> datetime:
    """When the series that moved most was highest."""
    worst = max(watched, key=lambda series: (series.shift, series.service, series.signal))
    at = int(worst.times[int(np.argmax(worst.now))])
    return datetime.fromtimestamp(at / 1e9, UTC)


def _label(case: Case, window: Window) -> dict[str, object]:
    changes = case.changes.filter(pl.col("time") < window.end)
    return {
        "fault": "healthy",
        "verdict": Verdict.NO_ACTIVE_INCIDENT.value,
        "change": NO_CHANGE,
        "decoys": changes["id"].drop_nulls().unique().sort().to_list(),
        "origin": f"{case.path.name}, {window.start.isoformat()}",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the windows; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m proving_ground.healthy_windows")
    parser.add_argument("cases", type=Path, nargs="+", help="folders of recorded cases")
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--most", type=int, default=80, help="windows of each system")
    options = parser.parse_args(arguments)
    if options.out.exists():
        sys.stderr.write(f"{options.out} is there already\n")
        return 2
    folders = [folder for cases in options.cases for folder in case_folders(cases)]
    written = write_healthy_windows(folders, options.out, options.most)
    for system, count in sorted(written.items()):
        sys.stdout.write(f"{count:6d} {system}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
