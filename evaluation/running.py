"""All cases of a folder through the production analysis, on several cores; the order is that of
their names.

A case that cannot be read, breaks the analysis or ends its process is reported and stops nothing.
Where its label names a subject it counts as a wrong answer: an investigation would have had none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import BudgetExceeded, EvidenceError, FaultlineError
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.evaluation.case_setting import named_by_replay, read_setting
from faultline.evaluation.fitted_elsewhere import Constants, fitted_without
from faultline.evaluation.grading import Grade, grade
from faultline.evaluation.hidden_tables import without_tables
from faultline.evaluation.labels import CaseLabel, read_label, system_of
from faultline.evaluation.shown_path import path_shown

log = logging.getLogger("faultline.evaluation")


@dataclass(frozen=True)
class GradingOptions:
    """How cases are answered: `hidden` names tables that the analysis does not get, `baselines`
    asks simple methods beside it, `left_out` holds by system the fitted numbers to answer with."""

    hidden: tuple[str, ...] = ()
    baselines: bool = False
    left_out: Mapping[str, Constants] | None = None

    def as_fitted_for(self, system: str) -> AbstractContextManager[None]:
        """The analysis as it is to answer cases of that system."""
        if self.left_out is None:
            return nullcontext()
        return fitted_without(system, self.left_out)


AS_IT_IS = GradingOptions()
Grading = Callable[[Path, GradingOptions], Grade]

UNLABELLED = "no label.json: not graded"
NOTHING_TO_GRADE = "label.json names no subject, change or verdict: not graded"
BY_REPLAY = "lowest moved, by replay"
ENDED = "the process that analysed it ended"


def evaluate(
    cases: Path | Sequence[Path],
    options: GradingOptions = AS_IT_IS,
    *,
    workers: int | None = None,
) -> list[Grade]:
    """Grade every case folder in each of `cases`, which may be such a folder itself. Raises
    EvidenceError if there is none."""
    folders: list[Path] = []
    for case in [cases] if isinstance(cases, Path) else cases:
        folders += case_folders(case)
    return evaluate_folders(folders, options, workers=workers)


def evaluate_folders(
    folders: Sequence[Path],
    options: GradingOptions = AS_IT_IS,
    *,
    workers: int | None = None,
    grader: Grading | None = None,
) -> list[Grade]:
    """Grade those case folders, in their order.

    `grader` grades a folder, `grade_folder` if not given; it must be importable by name, as
    processes are spawned.
    """
    grader = grader or grade_folder
    # More processes than cases would only cost their start.
    workers = min(workers or _cores(), len(folders))
    if workers <= 1:
        _load_analyzers()
        return [grader(folder, options) for folder in folders]
    return asyncio.run(_side_by_side(grader, folders, options, workers))


def case_folders(cases: Path) -> list[Path]:
    """The folders in `cases` that are not hidden, by name."""
    if not cases.is_dir():
        raise EvidenceError(str(cases), "no such directory")
    if (cases / "alert.json").exists():
        return [cases.resolve()]
    folders = sorted(
        (p for p in cases.iterdir() if p.is_dir() and not p.name.startswith(".")),
        key=lambda p: p.name,
    )
    if not folders:
        raise EvidenceError(str(cases), "holds no case folders")
    return folders


def grade_folder(folder: Path, options: GradingOptions = AS_IT_IS) -> Grade:
    """Analyse one case as `faultline investigate` does, and grade the answer. Never raises."""
    name, system = folder.name, system_of(folder.name)
    label: CaseLabel | None = None
    named: dict[str, tuple[str, ...]] = {}
    began = time.process_time()
    try:
        label = read_label(folder)
        with without_tables(folder, options.hidden) as view:
            if options.baselines:
                # What simple methods name, and what the replay says of a case that has one.
                from proving_ground.baselines.inputs import BaselineInputs
                from proving_ground.baselines.methods import GRADED_SERVICES, named_by_baselines

                named = named_by_baselines(BaselineInputs(read_case(view)))
                by_replay = named_by_replay(folder)
                if by_replay is not None:
                    named[BY_REPLAY] = by_replay[:GRADED_SERVICES]
            with options.as_fitted_for(system):
                # Count the time of the answer alone, without reading and simple methods.
                began = time.process_time()
                replayed = replay(view)
                spent = time.process_time() - began
    # A case that breaks the analysis counts as a wrong answer and stops nothing.
    except Exception as error:
        problem = str(error)
        if not isinstance(error, FaultlineError):
            log.debug("%s", name, exc_info=True)
            problem = f"cannot be analysed ({type(error).__name__}: {error})"[:300]
        failed = _failed(name, system, label, problem, time.process_time() - began)
        return replace(failed, baselines=named, setting=read_setting(folder, label))
    if label is None or not label.gradable:
        problem = UNLABELLED if label is None else NOTHING_TO_GRADE
        verdict = replayed.diagnosis.verdict
        return Grade(name, system, verdict=verdict, cpu_s=spent, problem=problem)
    graded = grade(name, system, label, replayed.diagnosis, spent)
    return _with_setting(replace(graded, baselines=named), folder, replayed)


def _with_setting(graded: Grade, folder: Path, replayed: Replayed) -> Grade:
    setting = read_setting(folder, graded.label)
    shown = path_shown(setting.path, replayed.diagnosis, replayed.report)
    # The way to a wrong culprit is no way to the right one.
    return replace(
        graded, setting=setting, path_shown=None if shown is None else shown and graded.hit(1)
    )


def _failed(
    name: str, system: str, label: CaseLabel | None, problem: str, cpu_s: float = 0.0
) -> Grade:
    return Grade(
        name, system, label.fault_class if label else "unnamed", label, cpu_s=cpu_s, problem=problem
    )


async def _side_by_side(
    grader: Grading, folders: Sequence[Path], options: GradingOptions, workers: int
) -> list[Grade]:
    pool = ProcessPool(workers=workers, deadline_s=None, load=_load_analyzers)
    try:
        grading = [_graded(pool, grader, folder, options) for folder in folders]
        return await asyncio.gather(*grading)
    finally:
        pool.close()


async def _graded(
    pool: ProcessPool, grader: Grading, folder: Path, options: GradingOptions
) -> Grade:
    try:
        return await pool.run(partial(_grade_in_process, grader, options), folder)
    except BudgetExceeded:
        return _failed(folder.name, system_of(folder.name), _label_or_none(folder), ENDED)


def _grade_in_process(grader: Grading, options: GradingOptions, folder: Path) -> Grade:
    return grader(folder, options)


def _label_or_none(folder: Path) -> CaseLabel | None:
    try:
        return read_label(folder)
    except FaultlineError:
        return None


def _load_analyzers() -> None:
    """Imports are a process's, not a case's."""
    import faultline.analysis.diagnosis  # noqa: F401


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
