"""Results on disk, so that a run can be resumed, and the tables made of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.trials import CleanFile, CleanTimes, Trial
from faultline.evaluation.intervals import wilson

MOST_TESTS_NAMED = 6


class ResultsFile:
    """JSON lines: trials, and how long test files take. Nothing is written without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.trials: dict[str, Trial] = {}
        self.clean = CleanTimes()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(json.loads(line))
        self._written = set(self.clean.files)

    def add(self, trial: Trial) -> None:
        """Keeps the trial, and the times of test files that are new."""
        self.trials[trial.mutation.identity] = trial
        lines: list[dict[str, Any]] = []
        for test in sorted(set(self.clean.files) - self._written):
            self._written.add(test)
            lines.append({"clean": test, **asdict(self.clean.files[test])})
        lines.append({"trial": asdict(trial)})
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    def _read(self, line: dict[str, Any]) -> None:
        if "clean" in line:
            clean = CleanFile(line["seconds"], tuple(line["failures"]))
            self.clean.files[line["clean"]] = clean
            return
        fields = line["trial"]
        fields["mutation"] = Mutation(**fields["mutation"])
        fields["tests"] = tuple(fields["tests"])
        trial = Trial(**fields)
        self.trials[trial.mutation.identity] = trial


@dataclass(frozen=True)
class Share:
    """How many mutations were caught, a timeout included, and Wilson's 95 % interval."""

    caught: int
    all: int

    def __str__(self) -> str:
        return f"{self.caught} / {self.all}"

    @property
    def interval(self) -> str:
        """In per cent."""
        interval = wilson(self.caught, self.all)
        if interval is None:
            return "no mutations"
        return f"{100 * interval.low:.0f} to {100 * interval.high:.0f} %"


def share_of(trials: Iterable[Trial]) -> Share:
    """The share of mutations that were caught."""
    outcomes = [trial.outcome for trial in trials]
    return Share(len(outcomes) - outcomes.count("survived"), len(outcomes))


def shares_by(trials: Sequence[Trial], key: Callable[[Trial], str]) -> dict[str, Share]:
    """The share of each room or kind, by name."""
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[key(trial)].append(trial)
    return {name: share_of(groups[name]) for name in sorted(groups)}


def survivor_text(trial: Trial) -> str:
    """What a reader needs to write the test that is missing."""
    mutation = trial.mutation
    lines = [
        f"{mutation.place}",
        f"  - {mutation.before}",
        f"  + {mutation.after}",
    ]
    named = ", ".join(trial.tests[:MOST_TESTS_NAMED]) or "none"
    more = len(trial.tests) - MOST_TESTS_NAMED
    if more > 0:
        named += f" and {more} more"
    lines.append(f"  tests that ran: {named}")
    if trial.not_run:
        lines.append(f"  {trial.not_run} files of tests further away were not run (--budget)")
    return "\n".join(lines)


def table(title: str, shares: dict[str, Share]) -> str:
    """One line for each room or kind."""
    width = max(map(len, [title, *shares]))
    lines = [f"{title:<{width}}  caught / all"]
    for name, share in shares.items():
        lines.append(f"{name:<{width}}  {share.caught:>6} / {share.all}")
    return "\n".join(lines)


def as_json(trials: Sequence[Trial], room: Callable[[Trial], str], red: Sequence[str]) -> str:
    """Everything for programs."""
    total = share_of(trials)
    interval = wilson(total.caught, total.all)
    document = {
        "caught": total.caught,
        "all": total.all,
        "interval": None if interval is None else asdict(interval),
        "rooms": {name: asdict(share) for name, share in shares_by(trials, room).items()},
        "kinds": {
            name: asdict(share)
            for name, share in shares_by(trials, lambda trial: trial.mutation.kind).items()
        },
        "left_out_as_red": list(red),
        "trials": [asdict(trial) for trial in trials],
    }
    return json.dumps(document, indent=1)
