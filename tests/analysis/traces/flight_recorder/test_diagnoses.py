"""What is said of a job's files, from a folder to sentences."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.flight_recorder.written_dumps import world, write_json, write_pickles


def _said(folder: Path) -> list[JobDiagnosis]:
    return hang_diagnoses(sort_job_files([folder]))


def _blamed(found: list[JobDiagnosis]) -> list[tuple[str, tuple[int, ...]]]:
    return [(d.rule, d.ranks) for d in found if d.severity != "info"]


REAL = [
    ("nvrx_flight_recorder/gpu_error_1st", [("flight_recorder_device_stuck", (12, 14))]),
    ("nvrx_flight_recorder/lock_gil_1st", [("flight_recorder_missing_rank", (9, 14))]),
    ("generated/hang_skip", [("flight_recorder_missing_rank", (2,))]),
    ("generated/hang_type", [("flight_recorder_mismatch", (3,))]),
    ("generated/hang_type_truncated", [("flight_recorder_mismatch", (3,))]),
    ("generated/nan_loss", [("nan_loss", (1,))]),
    *(
        (f"generated/{name}", [])
        for name in ("healthy", "dataloader_fixed", "fsdp_healthy", "straggler_compute")
    ),
    *(
        (f"generated/{name}", [])
        for name in ("checkpoint_stall", "dataloader_stall", "no_overlap", "tiny_ops")
    ),
    ("debug_server", []),
    ("dynolog_on_demand", []),
]


@pytest.mark.parametrize(("folder", "expected"), REAL)
def test_every_real_job_gets_its_culprits_and_no_other(
    shared: Path, folder: str, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert _blamed(_said(shared / "traces" / folder)) == expected


def test_the_stack_dump_names_the_line_where_the_culprit_stands(shared: Path) -> None:
    found = _said(shared / "traces/generated/hang_skip")[0]
    assert "branch_without_allreduce (train.py:183)" in found.statement
    assert found.numbers["line"] == 183
    assert found.details["waiting_at"] == "train.py:199"
    assert "train.py:199" in found.fix


def test_a_mismatch_names_the_line_that_calls_the_wrong_collective(shared: Path) -> None:
    found = _said(shared / "traces/generated/hang_type")[0]
    assert "rank 3 calls broadcast at collective 6 of default_pg" in found.statement
    assert "train_step (train.py:218)" in found.statement


def test_dumps_that_are_empty_or_missing_are_named(shared: Path) -> None:
    found = {d.rule: d for d in _said(shared / "traces/generated/hang_type_truncated")}
    incomplete = found["flight_recorder_incomplete"]
    assert incomplete.severity == "info"
    assert incomplete.details["without_dump"] == [0, 2]
    assert incomplete.details["unread"][0]["problem"] == "empty"


def test_every_number_of_a_sentence_is_kept(shared: Path) -> None:
    for folder, _ in REAL:
        for d in _said(shared / "traces" / folder):
            plain = re.sub(
                r"[\w.]*[A-Za-z_][\w.]*",
                lambda w: w[0].rpartition(":")[2] if ":" in w[0] else " ",
                d.statement,
            )
            said = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", plain)}
            assert said <= set(d.numbers.values()), d.statement


def test_a_dead_rank_is_told_by_what_is_not_there(tmp_path: Path) -> None:
    job = [rank.calls("0", 6) for rank in world(4, "gloo") if rank.rank != 1]
    write_pickles(tmp_path / "fr", job)
    for rank in range(4):
        lines = ["1795230071.444 step 4 done"]
        if rank != 1:
            lines.append(
                "1795230072.1 RuntimeError: [tcp/pair.cc:553] Connection closed by peer "
                "[127.0.0.1]:5014."
            )
        (tmp_path / f"log_rank{rank}.txt").write_text("\n".join(lines))
    assert _blamed(_said(tmp_path)) == [("dead_rank", (1,))]
    (tmp_path / "launcher.log").write_text(
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  "
        ": 17 (pid: 4)\n"
    )
    found = _said(tmp_path)[0]
    assert found.statement.startswith("rank 1 ended with exit code 17")
    assert found.numbers["exit_code"] == 17


def test_a_dead_rank_is_named_with_the_exception_of_its_log(tmp_path: Path) -> None:
    job = [rank.calls("0", 5).call("0", pending=True) for rank in world(3) if rank.rank != 2]
    write_pickles(tmp_path, job)
    (tmp_path / "log_rank2.txt").write_text(
        'Traceback (most recent call last):\n  File "/app/train.py", line 77, in load\n    x\n'
        '  File "/usr/lib/python3.11/site-packages/torch/x.py", line 3, in y\nValueError: bad '
        "shard\n"
    )
    found = _said(tmp_path)
    assert _blamed(found) == [("dead_rank", (2,)), ("exception", (2,))]
    assert (
        "rank 2 ended (ValueError); 2 ranks wait for it in all_reduce 6 of default_pg"
        in found[0].statement
    )
    assert "load (train.py:77)" in found[0].statement


def test_a_rank_that_dies_of_another_ones_mismatch_stands_behind_it(tmp_path: Path) -> None:
    """Rank 3 sends another size; rank 0 receives it, and ends."""
    job = world(4, "gloo")
    for rank in job:
        rank.calls("0", 5)
        rank.call("0", pending=True, **({"size": (8000,)} if rank.rank == 3 else {}))
    write_pickles(tmp_path, [rank for rank in job if rank.rank != 0])
    (tmp_path / "log_rank0.txt").write_text(
        'Traceback (most recent call last):\n  File "/app/train.py", line 77, in step\n    x\n'
        "ValueError: message truncated\n"
    )
    first, *others = _said(tmp_path)
    assert (first.rule, first.ranks) == ("flight_recorder_mismatch", (3,))
    assert first.statement.startswith("rank 3 has 8000 elements")
    assert "rank 0 ended (ValueError)" in first.statement
    assert "dead_rank" not in [d.rule for d in others]
    assert first.numbers["rank"] == 3


@pytest.mark.parametrize(
    ("calls", "statement"),
    [
        (
            {1: {"op": "reduce"}, 4: {"op": "broadcast"}},
            "ranks 1 and 4 call reduce at collective 6 of default_pg, where 3 ranks call "
            "all_reduce",
        ),
        (
            {4: {"size": (8000,)}},
            "rank 4 has 8000 elements at collective 6 of default_pg, where 4 ranks have",
        ),
        ({0: {"dtype": "Half"}}, "rank 0 has Half/Half at collective 6 of default_pg, where"),
    ],
)
def test_a_mismatch_says_what_the_first_odd_rank_and_what_the_others_call(
    tmp_path: Path, calls: dict[int, dict[str, Any]], statement: str
) -> None:
    job = world(5)
    for rank in job:
        rank.calls("0", 5).call("0", pending=True, **calls.get(rank.rank, {}))
    write_pickles(tmp_path, job)
    assert _said(tmp_path)[0].statement.startswith(statement)


def test_a_rank_that_is_only_silent_is_not_accused_beside_a_culprit(tmp_path: Path) -> None:
    job = world(4)
    for rank in job:
        rank.calls("0", 5)
        if rank.rank != 2:
            rank.call("0", pending=True)
    write_pickles(tmp_path, [rank for rank in job if rank.rank != 1])
    (tmp_path / "log_rank1.txt").write_text("step 4 done\n")
    (tmp_path / "log_rank0.txt").write_text(
        "RuntimeError: Timed out waiting 30000ms for recv operation to complete\n"
    )
    assert _blamed(_said(tmp_path)) == [("flight_recorder_missing_rank", (2,))]


def test_files_that_were_damaged_never_end_the_analysis(shared: Path, tmp_path: Path) -> None:
    dice = random.Random(11)
    for turn in range(40):
        folder = tmp_path / str(turn)
        source = (
            shared
            / "traces"
            / dice.choice(["generated/hang_skip", "generated/nan_loss", "debug_server"])
        )
        for path in sorted(source.rglob("*")):
            if (
                path.suffix in (".gz", ".md", ".html")
                or not path.is_file()
                or path.name == "label.json"
            ):
                continue
            data = bytearray(path.read_bytes())
            for _ in range(dice.choice((0, 1, 20)) if data else 0):
                data[dice.randrange(len(data))] = dice.randrange(256)
            copy = folder / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(bytes(data[: dice.choice((len(data), dice.randrange(len(data) + 1)))]))
        _said(folder)


def test_a_rank_that_others_wait_for_and_that_left_nothing_is_dead_or_out_of_reach(
    tmp_path: Path,
) -> None:
    write_pickles(
        tmp_path,
        [rank.calls("0", 5).call("0", pending=True) for rank in world(4) if rank.rank != 3],
    )
    found = _said(tmp_path)[0]
    assert (found.rule, found.ranks) == ("dead_rank", (3,))
    assert "dead, or out of reach" in found.statement


def test_one_answer_of_the_debug_server_accuses_nobody_of_hanging_two_do(tmp_path: Path) -> None:
    job = world(3)
    for rank in job:
        rank.calls("0", 5)
        if rank.rank != 1:
            rank.call("0", pending=True)
    write_json(tmp_path / "1", job)
    assert [(d.severity, d.ranks) for d in _said(tmp_path)] == [("info", (1,))]
    job[1].entries[0]["profiling_name"] = "nccl:broadcast"
    job[1].call("0", "send 1->0", pending=True)
    write_json(tmp_path / "2", job)
    assert _said(tmp_path)[0].severity == "critical"


def test_a_job_that_went_on_after_it_was_held_up_is_a_warning(tmp_path: Path) -> None:
    job = world(3)
    for rank in job:
        rank.calls("0", 5)
        if rank.rank != 1:
            rank.call("0", pending=True)
    write_pickles(tmp_path / "1", job)
    write_pickles(tmp_path / "2", [rank.calls("0", 9) for rank in world(3)])
    found = _said(tmp_path)
    assert [(d.severity, d.rule, d.ranks) for d in found] == [
        ("warning", "flight_recorder_missing_rank", (1,))
    ]
    assert found[0].statement.endswith("later dumps show that the job went on")


def test_stacks_alone_show_who_is_not_where_the_others_wait(shared: Path, tmp_path: Path) -> None:
    for path in (shared / "traces/generated/hang_skip/http").glob("*.dump_traceback.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = _said(tmp_path)
    assert [(d.severity, d.rule, d.ranks) for d in found] == [("info", "stack_outlier", (2,))]
    assert "branch_without_allreduce (train.py:183)" in found[0].statement
    (tmp_path / "log_rank0.txt").write_text(
        "RuntimeError: Timed out waiting 30000ms for recv operation to complete\n"
    )
    assert _said(tmp_path)[0].severity == "critical"


def test_a_circle_and_all_joined_are_said_without_blame(tmp_path: Path) -> None:
    job = world(2, other=(0, 1))
    job[0].call("0", pending=True)
    job[1].call("1", pending=True)
    write_pickles(tmp_path / "a", job)
    assert _blamed(_said(tmp_path / "a")) == [("flight_recorder_deadlock", ())]
    write_pickles(tmp_path / "b", [rank.call("0", pending=True) for rank in world(2)])
    assert _blamed(_said(tmp_path / "b")) == [("flight_recorder_all_joined", ())]


def test_names_of_the_job_cannot_speak_for_us(tmp_path: Path) -> None:
    evil = "f`<!channel>\x1b[31m\n" + "x" * 5_000
    job = world(3, **{"0": (0, 1, 2)})
    for rank in job:
        rank.groups = {"0": (evil, (0, 1, 2))}
        op = f"evil<{evil}" if rank.rank == 1 else "all_reduce"
        rank.call("0", op, pending=True, function=evil, file=evil, dtype=evil)
    write_pickles(tmp_path, job)
    (tmp_path / "rank1.dump_traceback.txt").write_text(
        f'Thread 0x00007fc84fbecb80 (most recent call first):\n  File "{evil[:20]}", line 3 in '
        f"<module>\n"
    )
    (tmp_path / "log_rank0.txt").write_text(
        f"Traceback (most recent call last):\nEvilError: {evil}\n"
    )
    found = _said(tmp_path)
    assert found
    for d in found:
        for text in (d.statement, d.fix, d.subject, str(d.details)):
            assert not re.search(r"[`<>\x1b\n]", text)
        assert len(d.statement) < 700


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert _said(tmp_path) == []
