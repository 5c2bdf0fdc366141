"""All cases of a folder through the production analysis, on several cores; the order is that of
their names.

A case that cannot be read, breaks the analysis or ends its process is reported and stops nothing.
Where its label names a subject it counts as a wrong answer: an investigation would have had none.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import importlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from faultline import analysis
from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import MAX_JSON_BYTES, SCHEMAS, check_regular, place_copy
from faultline.analysis.errors import BudgetExceeded, EvidenceError, FaultlineError, SettingsError
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.evaluation.labels import (
    CaseLabel,
    Grade,
    grade,
    named_by_replay,
    path_shown,
    read_label,
    read_setting,
    system_of,
)

# Answers by fitted numbers that never saw the case's system, so that it can be called left out.
#
# `benchmarks/suspect_weights.py --left-out FILE` writes such a file: for each system, by module of
# the analysis, the constants as fitted on all other systems.

Constants = Mapping[str, Mapping[str, Any]]
"""Values by name, by module."""


def read_left_out(file: Path) -> dict[str, Constants]:
    """The constants of each system. Raises EvidenceError for a file that holds anything else."""
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(str(file), f"is not readable JSON ({error})") from error
    if not isinstance(document, dict):
        raise EvidenceError(str(file), "must be an object with an entry for each system")
    for system, modules in document.items():
        for name in modules:
            if not name.startswith("faultline.analysis."):
                raise EvidenceError(str(file), f"{system}: {name} is no module of the analysis")
    return document


@contextmanager
def fitted_without(system: str, left_out: Mapping[str, Constants]) -> Iterator[None]:
    """The analysis with the constants that were fitted without this system. Raises EvidenceError
    where there are none."""
    if system not in left_out:
        raise EvidenceError("the fitted numbers", f"none were fitted without {system}")
    undo = []
    for module_name, constants in left_out[system].items():
        module = importlib.import_module(module_name)
        for name, value in constants.items():
            old = getattr(module, name, None)
            if old is None:
                raise EvidenceError("the fitted numbers", f"{module_name} has no {name}")
            # A name that was imported is another reference: it has to change there too.
            for holder in _holders(name, old):
                undo.append((holder, name, old))
                setattr(holder, name, value)
    try:
        yield
    finally:
        # Undo even after a failure: the next case may be of another system.
        for holder, name, old in undo:
            setattr(holder, name, old)


def _holders(name: str, value: Any) -> list[ModuleType]:
    """The modules that hold this very value: the one that defines it, and those that import it."""
    modules = []
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("faultline.analysis.") and getattr(module, name, None) is value:
            modules.append(module)
    return modules


# A case as it would be without some of its tables: a folder of links, so that nothing is copied.

CAN_BE_HIDDEN = (*SCHEMAS, "traces")


def parse_hidden(text: str) -> tuple[str, ...]:
    """ "logs, spans" as names of tables. Raises SettingsError for one that no case has."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in CAN_BE_HIDDEN:
            raise SettingsError("--without", f"{name!r} is none of {', '.join(CAN_BE_HIDDEN)}")
    return names


def has_tables(folder: Path, names: Collection[str]) -> bool:
    """Whether the case has any of them."""
    return any(_is_table(entry, names) for entry in folder.iterdir())


@contextmanager
def without_tables(folder: Path, hidden: Collection[str]) -> Iterator[Path]:
    """The case folder without those tables and without what its evidence.json says of them."""
    if not hidden or not folder.is_dir():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="faultline-eval-") as room:
        view = Path(room) / folder.name
        view.mkdir()
        for entry in folder.iterdir():
            # What answers the case must not see its label.
            if _is_table(entry, hidden) or entry.name == "label.json":
                continue
            if entry.name == "evidence.json":
                check_regular(entry, MAX_JSON_BYTES)
                (view / entry.name).write_bytes(_visible_evidence(entry.read_bytes(), hidden))
            else:
                place_copy(entry, view / entry.name)
        yield view


def _is_table(entry: Path, names: Collection[str]) -> bool:
    return entry.name.partition(".")[0] in names


def _visible_evidence(text: bytes, hidden: Collection[str]) -> bytes:
    """What cannot be read stays as it is, for the analysis to say so."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(entries, list):
        return text
    return json.dumps(
        [e for e in entries if not (isinstance(e, dict) and e.get("kind") in hidden)]
    ).encode()


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


# A hash of the code that decides: equal hashes give equal answers to equal cases.
#
# It covers `analysis/` with its fitted weights and tables of words. Comments, docstrings and layout
# do not count, nor does the reading of GPU traces, which no case of docs/accuracy.md holds.

ROOT = Path(analysis.__file__).resolve().parent
NOT_MEASURED = ("traces",)
DIGITS = 12


@cache
def code_hash() -> str:
    """The hash of the code that runs, read once."""
    return hash_of(ROOT)


def hash_of(root: Path) -> str:
    """The first 12 hex digits of the hash of a package."""
    what_decides = hashlib.sha256()
    for path in sorted(_files(root), key=lambda path: path.relative_to(root).as_posix()):
        what_decides.update(path.relative_to(root).as_posix().encode())
        what_decides.update(_what_decides(path))
    return what_decides.hexdigest()[:DIGITS]


def _files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        if inside[0] not in NOT_MEASURED and path.suffix in (".py", ".toml"):
            yield path


def _what_decides(path: Path) -> bytes:
    text = path.read_bytes()
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [node for node in node.body if not _is_text(node)]
    # Written again from its tree, code has no comments and one layout.
    return ast.unparse(tree).encode()


def _is_text(node: ast.stmt) -> bool:
    """Whether it is a docstring, of a module, a class, a function or an attribute."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)
