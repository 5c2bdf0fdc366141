"""Tries mutations one by one: which tests are run, for how long, and what they say."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.working_copy import TestRun, WorkingCopy

Outcome = Literal["caught", "timeout", "survived"]
FIRST_GROUP = 3
"""Most mutations are caught by the nearest files, so that few are collected first."""
GROUP_GROWTH = 3
SLOWER = 3.0
"""A mutated program that takes that many times as long as usual hangs."""
START_S = 30.0
"""What starting pytest may take on a busy machine."""
LONGEST_CLEAN_S = 900.0
FINISHED = (0, 1, 5)
"""Exit statuses of pytest after which no file is left."""


@dataclass(frozen=True)
class CleanFile:
    """How long the tests of a file take without a mutation, and which of them fail even so."""

    seconds: float
    failures: tuple[str, ...] = ()


@dataclass
class CleanTimes:
    """Test files that ran without a mutation."""

    files: dict[str, CleanFile] = field(default_factory=dict)

    def measure(self, copy: WorkingCopy, tests: Sequence[str], budget_s: float) -> None:
        """Runs those of the tests that have not run yet, until the time is spent."""
        spent = sum(self.files[test].seconds for test in tests if test in self.files)
        missing = [test for test in tests if test not in self.files]
        if not missing or spent > budget_s:
            return
        run = copy.run(
            missing,
            timeout_s=LONGEST_CLEAN_S,
            options=["--continue-on-collection-errors"],
            stop_after_s=budget_s - spent,
        )
        self._note(run, missing)

    def usable(self, tests: Sequence[str]) -> list[str]:
        """Those that ran, but for files that cannot even be imported."""
        chosen = []
        for test in tests:
            if test in self.files and test not in self.files[test].failures:
                chosen.append(test)
        return chosen

    @property
    def red(self) -> list[str]:
        """Tests that fail without a mutation, and are left out."""
        failures = []
        for test in sorted(self.files):
            failures += self.files[test].failures
        return failures

    def _note(self, run: TestRun, tests: Sequence[str]) -> None:
        seconds: dict[str, float] = defaultdict(float)
        if run.status in FINISHED:
            # Also files that hold no test that runs here.
            seconds.update(dict.fromkeys(tests, 0.0))
        for result in run.results:
            seconds[result.file] += result.seconds
        failures = run.failures
        if run.status is None and run.results:
            # It hangs in this file.
            failures.append(run.results[-1].file)
        for test, total in seconds.items():
            of_file = tuple(name for name in failures if name.partition("::")[0] == test)
            self.files[test] = CleanFile(total, of_file)


@dataclass(frozen=True)
class Trial:
    """The result of one mutation."""

    mutation: Mutation
    outcome: Outcome
    caught_by: str
    """The test that failed first; empty where none did."""
    tests: tuple[str, ...]
    """The files that ran."""
    not_run: int
    """Files for which no time was left."""
    seconds: float
    budget_s: float

    def is_final(self, budget_s: float) -> bool:
        """Whether a run with this budget could say no more of it."""
        return self.outcome != "survived" or not self.not_run or self.budget_s >= budget_s


def try_mutation(
    copy: WorkingCopy,
    tests: Sequence[str],
    clean: CleanTimes,
    mutation: Mutation,
    budget_s: float,
) -> Trial:
    """Runs the tests in this order and stops at the first failure, or when tests that take
    `budget_s` seconds without a mutation have run."""
    began = time.monotonic()
    done: list[str] = []
    outcome: Outcome = "survived"
    caught_by = ""
    left_s = budget_s
    for group in groups(tests):
        if left_s <= 0:
            break
        clean.measure(copy, group, left_s)
        ready = clean.usable(group)
        usual_s = sum(clean.files[test].seconds for test in ready)
        left_s -= usual_s
        if not ready:
            continue
        done += ready
        with copy.mutated(mutation):
            run = copy.run(
                ready, timeout_s=SLOWER * usual_s + START_S, options=_options(clean, ready)
            )
        if not run.is_green:
            outcome = "timeout" if run.status is None else "caught"
            caught_by = run.failures[0] if run.failures else f"pytest ended with {run.status}"
            break
    return Trial(
        mutation,
        outcome,
        caught_by,
        tuple(done),
        len(tests) - len(done),
        time.monotonic() - began,
        budget_s,
    )


def groups(tests: Sequence[str]) -> Iterator[list[str]]:
    """A few files, then more at a time: a run of pytest costs seconds whatever it runs."""
    start, size = 0, FIRST_GROUP
    while start < len(tests):
        yield list(tests[start : start + size])
        start, size = start + size, size * GROUP_GROWTH


def _options(clean: CleanTimes, tests: Sequence[str]) -> list[str]:
    """Stop at the first failure, and leave out what fails without a mutation."""
    options = ["-x"]
    for test in tests:
        for failure in clean.files[test].failures:
            options += ["--deselect", failure]
    return options
