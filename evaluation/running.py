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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from analysis.errors import BudgetExceeded, EvidenceError, FaultlineError
from bot.answer.replay import replay
from bot.runtime.process_pool import ProcessPool
from evaluation.grading import Grade, grade
from evaluation.hidden_tables import without_tables
from evaluation.labels import CaseLabel, read_label, system_of

log = logging.getLogger("faultline.evaluation")
Grading = Callable[[Path, Sequence[str]], Grade]

UNLABELLED = "no label.json: not graded"
NOTHING_TO_GRADE = "label.json names no subject, change or verdict: not graded"
ENDED = "the process that analysed it ended"


def evaluate(
    cases: Path, *, without: Sequence[str] = (), workers: int | None = None
) -> list[Grade]:
    """Grade every case folder in `cases`, or `cases` itself if it is one. Raises EvidenceError if
    there is none."""
    return evaluate_folders(case_folders(cases), without=without, workers=workers)


def evaluate_folders(
    folders: Sequence[Path],
    *,
    without: Sequence[str] = (),
    workers: int | None = None,
    one: Grading | None = None,
) -> list[Grade]:
    """Grade those case folders, in their order.

    `one` grades a folder, `grade_folder` if not given; it must be importable by name, as processes
    are spawned.
    """
    one, hidden = one or grade_folder, tuple(without)
    workers = min(workers or _cores(), len(folders))
    if workers <= 1:
        _load_analyzers()
        return [one(folder, hidden) for folder in folders]
    return asyncio.run(_side_by_side(one, folders, hidden, workers))


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


def grade_folder(folder: Path, hidden: Sequence[str] = ()) -> Grade:
    """Analyse one case as `faultline investigate` does, and grade the answer. Never raises."""
    name, system = folder.name, system_of(folder.name)
    label: CaseLabel | None = None
    began = time.process_time()
    try:
        label = read_label(folder)
        with without_tables(folder, hidden) as view:
            began = time.process_time()
            diagnosis = replay(view).diagnosis
            spent = time.process_time() - began
    except FaultlineError as error:
        return _failed(name, system, label, str(error), time.process_time() - began)
    except Exception as error:
        log.debug("%s", name, exc_info=True)
        return _failed(
            name, system, label, f"cannot be analysed ({type(error).__name__}: {error})"[:300]
        )
    if label is None or not label.gradable:
        problem = UNLABELLED if label is None else NOTHING_TO_GRADE
        return Grade(name, system, verdict=diagnosis.verdict, cpu_s=spent, problem=problem)
    return grade(name, system, label, diagnosis, spent)


def _failed(
    name: str, system: str, label: CaseLabel | None, problem: str, cpu_s: float = 0.0
) -> Grade:
    return Grade(
        name, system, label.fault_class if label else "unnamed", label, cpu_s=cpu_s, problem=problem
    )


async def _side_by_side(
    one: Grading, folders: Sequence[Path], hidden: Sequence[str], workers: int
) -> list[Grade]:
    pool = ProcessPool(workers=workers, deadline_s=None, on_start=_load_analyzers)
    try:
        grading = [_graded(pool, one, folder, hidden) for folder in folders]
        return await asyncio.gather(*grading)
    finally:
        pool.close()


async def _graded(pool: ProcessPool, one: Grading, folder: Path, hidden: Sequence[str]) -> Grade:
    try:
        return await pool.run(partial(_grade_in_process, one, hidden), folder)
    except BudgetExceeded:
        return _failed(folder.name, system_of(folder.name), _label_or_none(folder), ENDED)


def _grade_in_process(one: Grading, hidden: Sequence[str], folder: Path) -> Grade:
    return one(folder, hidden)


def _label_or_none(folder: Path) -> CaseLabel | None:
    try:
        return read_label(folder)
    except FaultlineError:
        return None


def _load_analyzers() -> None:
    """Imports are a process's, not a case's."""
    import analysis.diagnosis  # noqa: F401


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
