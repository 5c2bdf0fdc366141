"""One process per file: one that dies, fails or runs out of memory is named, and the others go
on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.trace_report import workers
from faultline.trace_report.workers import Say, Task, Update, run_tasks


def work(what: str, say: Say) -> str:
    """Does what its name says."""
    say("thinking")
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "refuse":
        raise EvidenceError("a file", "is no trace")
    if what == "starve":
        raise MemoryError
    if what == "break":
        raise IndexError("list index out of range")
    return f"{what} in {os.getpid()}"


def outcomes(*names: str, big: bool = True, jobs: int | None = 2) -> list[Update[str]]:
    tasks = [Task(name, f"{name}.json", 10_000_000 if big else 10) for name in names]
    ended = [update for update in run_tasks(work, tasks, jobs) if update.done]
    return sorted(ended, key=lambda update: update.number)


def test_every_task_has_a_process_of_its_own() -> None:
    results = [update.result for update in outcomes("one", "two", "three")]
    processes = {str(result).rpartition(" ")[2] for result in results}
    assert len(processes) == 3
    assert str(os.getpid()) not in processes


def test_small_files_are_read_in_this_process() -> None:
    assert [u.result for u in outcomes("one", "two", big=False)] == [
        f"{n} in {os.getpid()}" for n in ("one", "two")
    ]


FAILURES = {
    "die": "die.json: its process ended (code -9)",
    "refuse": "a file: is no trace",
    "starve": "memory limit of this machine reached",
    "break": "break.json: cannot be analysed (IndexError: list index out of range)",
}


def test_those_that_fail_are_named_and_the_others_go_on() -> None:
    first, *failed, last = outcomes("one", *FAILURES, "three")
    assert [str(update.error) for update in failed] == list(FAILURES.values())
    assert first.result is not None
    assert last.result is not None


def test_what_a_task_does_is_told_while_it_runs() -> None:
    updates = list(
        run_tasks(
            work, [Task("one", "one.json", 10_000_000), Task("two", "two.json", 10_000_000)], 2
        )
    )
    assert sorted(u.number for u in updates if u.doing == "thinking") == [0, 1]


def test_ranks_that_need_more_memory_than_there_is_are_read_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task("one", "one.json", 1_000_000_000, packed=True)
    monkeypatch.setattr(workers, "free_memory", lambda: 8_000_000_000)
    assert workers._jobs_that_fit([task] * 4) == 1
    monkeypatch.setattr(workers, "free_memory", lambda: 8_000_000_000_000)
    assert workers._jobs_that_fit([task] * 4) == len(os.sched_getaffinity(0))


def test_a_container_s_limit_counts_and_files_in_its_cache_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "CGROUP", tmp_path)
    unlimited = workers.free_memory()
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\nfile 1900000\n")
    assert workers.free_memory() == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert workers.free_memory() == pytest.approx(unlimited, rel=0.5)


def test_processes_are_gone_when_the_caller_stops_asking(tmp_path: Path) -> None:
    running = run_tasks(
        work, [Task("one", "one.json", 10_000_000), Task("two", "two.json", 10_000_000)], 2
    )
    next(running)
    running.close()  # type: ignore[attr-defined]
    import multiprocessing

    assert multiprocessing.active_children() == []
