"""A rank that ended, told from logs alone."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files

LOST = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 80, in <module>\n'
    "RuntimeError: [pair.cc:537] Read error [127.0.0.1]:18822: Connection reset by peer.\n"
)


def _accused(folder: Path, logs: dict[int, str]) -> list[tuple[str, tuple[int, ...]]]:
    for rank, text in logs.items():
        (folder / f"log_rank{rank}.txt").write_text(text)
    found = hang_diagnoses(sort_job_files([folder]))
    return [(d.rule, d.ranks) for d in found if d.severity == "critical"]


def test_the_one_rank_without_a_last_word_is_the_dead_one(tmp_path: Path) -> None:
    logs = {0: LOST, 1: LOST, 2: LOST, 3: "step 5 done\n"}
    assert _accused(tmp_path, logs) == [("dead_rank", (3,))]


def test_nobody_is_accused_where_several_are_silent(tmp_path: Path) -> None:
    logs = {0: LOST, 1: LOST, 2: "step 5 done\n", 3: "step 5 done\n"}
    assert _accused(tmp_path, logs) == []


def test_one_lost_connection_of_two_ranks_is_not_enough(tmp_path: Path) -> None:
    assert _accused(tmp_path, {0: LOST, 1: "step 5 done\n"}) == []
