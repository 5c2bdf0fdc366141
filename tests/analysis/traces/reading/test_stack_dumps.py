"""Where threads stand, in every form that stacks are dumped."""

from __future__ import annotations

import time
from pathlib import Path

from faultline.analysis.traces.reading.stack_dumps import parse_stacks, read_stack_dumps

PYSPY = """Process 4242: python train.py --config llama
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    wrapper (torch/distributed/c10d_logger.py:83)
    train_step (app/train.py:199)
    <module> (app/train.py:279)
Thread 4300 (idle): "Thread-1 (watch)"
    wait (threading.py:324)
"""


def test_faulthandlers_text_gives_the_line_of_the_jobs_own_code(shared: Path) -> None:
    dumps = read_stack_dumps(
        sorted(shared.glob("traces/generated/hang_skip/http/*dump_traceback.txt"))
    )
    mains = {d.rank: d.main for d in dumps}
    frame = mains[2].job_frame if mains[2] else None
    assert frame is not None
    assert (frame.function, frame.file, frame.line) == ("branch_without_allreduce", "train.py", 183)
    assert {rank: main.in_collective for rank, main in mains.items() if main} == {
        0: True,
        1: True,
        2: False,
        3: True,
    }


def test_the_debug_servers_page_holds_every_ranks_stacks(shared: Path) -> None:
    dumps = read_stack_dumps([shared / "traces/debug_server/stacks.html"])
    lines = [(d.rank, d.main.job_frame.line) for d in dumps if d.main and d.main.job_frame]
    assert lines == [(0, 13), (1, 12)]


def test_py_spys_text_names_the_main_thread() -> None:
    threads = parse_stacks(PYSPY)
    assert len(threads) == 2
    frame = threads[0].job_frame
    assert frame is not None
    assert (frame.function, frame.line, threads[0].in_collective) == ("train_step", 199, True)


def test_text_that_is_no_stack_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "rank0.txt").write_text("step 1 done\nstep 2 done\n")
    assert read_stack_dumps([tmp_path / "rank0.txt", tmp_path / "missing", tmp_path]) == []


def test_hostile_text_takes_no_time_and_little_room() -> None:
    start = time.process_time()
    assert len(parse_stacks("Thread 0x1 (most recent call first):\n" * 100_000)) <= 2_001
    parse_stacks("Thread 0x1:\n" + '  File "' + "a" * 1_000_000 + "\n")
    parse_stacks("Thread 0x1:\n" + ("  " + "(" * 1_900 + ":" * 90 + "\n") * 1_000)
    threads = parse_stacks("Thread 0x1:\n" + '  File "a.py", line 1 in f\n' * 100_000)
    assert len(threads[0].frames) == 200
    assert time.process_time() - start < 10
