"""Metrics, logs, stacks, timelines, execution traces and telemetry that were made to mislead or to
slow the reader down."""

from __future__ import annotations

import gzip
import json
import sqlite3
import time
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.analysis.traces.job_logs.metrics import read_metrics
from faultline.analysis.traces.job_logs.rank_logs import read_rank_logs
from faultline.analysis.traces.per_rank.execution_trace import correlate, read_execution_trace
from faultline.analysis.traces.per_rank.memory_categories import category_rows, read_memory_timeline
from faultline.analysis.traces.reading import hostile_sqlite
from faultline.analysis.traces.reading.job_files import sort_job_files
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.analysis.traces.reading.stack_dumps import read_stack_dumps
from faultline.analysis.traces.traceml.telemetry import read_telemetry
from tests.analysis.traces.traceml.databases import usual, write_telemetry
from tests.analysis.traces.wandb_files import history, wandb_file
from tests.analysis.traces.written_traces import document, event, write_trace

MARKUP = "<!channel> `x` \x1b[31m\u202e"

METRICS = (
    '{"step": 1, "loss": 2.0}',
    '{"step": 1e400, "loss": 1}',
    '{"step": -3, "loss": 1}',
    '{"step": true, "loss": 1}',
    '{"step": "2", "loss": 1}',
    '{"step": 2, "loss": [1]}',
    '{"step": 2, "loss": "1.5"}',
    '{"step": 2, "loss": true}',
    '{"step": 99999999999999999999, "loss": 1}',
    '{"step": 3, "rank": 1e300, "loss": 1}',
    '{"step": 3, "rank": -1, "loss": 1}',
    '{"step": 4, "loss": 1, "loss": 3}',
    '{"step": 5, "loss": ' + "9" * 5_000 + "}",
    '{"step": 6, "loss": ' + "[" * 10_000,
    '{"step": 7, "\ud800": 1, "loss": 1}',
    "[]",
    "null",
    '{"step": 8, "loss": 4.0}',
)


def test_lines_of_metrics_that_are_none_cost_only_themselves(tmp_path: Path) -> None:
    text = (
        "\n".join(METRICS).encode("utf-8", "surrogatepass")
        + b"\n\xff\xfe\x00{\n"
        + b'{"step": 9, "loss": 5'
    )
    (tmp_path / "metrics_rank1.jsonl").write_bytes(text)
    files = sort_job_files([tmp_path])
    assert [f.kind for f in files.files] == ["metrics"]
    read = {
        metrics.rank: dict(metrics.series("loss")) for metrics in read_metrics(files.of("metrics"))
    }
    assert {1: 2.0, 4: 3.0, 8: 4.0}.items() <= read[1].items()
    assert set(read[1]) <= {1, 3, 4, 5, 7, 8}
    diagnoses_of_files(files)


def test_a_log_of_control_characters_and_markup_accuses_in_plain_words(tmp_path: Path) -> None:
    raised = (
        f'Traceback (most recent call last):\n  File "{MARKUP}.py", line 4, in '
        f"{MARKUP}\nValueError: {MARKUP}\n"
    )
    (tmp_path / "log_rank2.txt").write_bytes(
        b"step 1 done\n" * 90 + b"\x00\x1b[2J\n\r\r\r\n" + raised.encode()
    )
    (tmp_path / "log_rank1.txt").write_text("step 1 done\nfinished\n")
    (found,) = (d for d in diagnoses_of_files(sort_job_files([tmp_path])) if d.rule == "exception")
    assert found.ranks == (2,)
    assert not any(
        mark in found.statement + found.subject for mark in ("<!channel>", "\x1b", "\u202e")
    )


def test_exit_codes_that_cannot_be_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_text(
        "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 12)\n"
        "  exitcode  : 99999999999 (pid: 12)\n"
        "  rank      : 99999999999 (local_rank: 0)\n  exitcode  : 1 (pid: 12)\n"
        "srun: error: n1: tasks 5-4: Exited with exit code 1\n"
        "srun: error: n1: tasks 7,,-,8-: Killed\n"
        "srun: error: n1: task 6: Exited with exit code 17\n"
        "srun: error: n1: tasks 0-999999999999: Killed\n"
    )
    began = time.process_time()
    exits = read_rank_logs(sort_job_files([tmp_path]).of("log")).exits
    assert time.process_time() - began < 10
    assert (exits[3], exits[6]) == (-9, 17)
    assert len(exits) < 10_100
    assert all(0 <= rank < 10**7 for rank in exits)


def test_a_page_of_stacks_with_ranks_that_cannot_be_and_no_end(tmp_path: Path) -> None:
    frames = 'Thread 0x1 (most recent call first):\n  File "train.py", line 4 in step\n'
    page = "<!DOCTYPE html><title>PyTorch Distributed</title><a href=/handler/dump_traceback>"
    page += f"<h2>Rank 1: http://a/handler/</h2><pre>{frames}</pre>"
    page += f"<h2>Rank 99999999999: http://a/</h2><pre>{frames}</pre>" + "<h2>Rank 2:" * 20_000
    page += f"<h2>Rank 3: x</h2><pre>{frames.replace('step', '&lt;b&gt;&#0;')}"
    (tmp_path / "stacks.html").write_text(page)
    began = time.process_time()
    assert [d.rank for d in read_stack_dumps([tmp_path / "stacks.html"])] == [1, 3]
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "[[1, 2, 3]]",
        "[[1, 2, 3, 4, 5]]",
        '[[1, 2, 3, "4"]]',
        "[[1, 2, 3, NaN]]",
        "[[1, 2, 99999999999999999999, 1]]",
        "[[1, 1, 5, 99]]",
        "[" * 200_000,
        "[[1, 1, 5, 2], " * 3 + "x",
    ],
)
def test_timelines_that_are_none_are_refused_in_one_line(text: str, tmp_path: Path) -> None:
    for name, data in (
        ("a.raw.json", text.encode()),
        ("a.raw.json.gz", gzip.compress(text.encode())),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(EvidenceError) as refused:
            read_memory_timeline(tmp_path / name)
        assert "\n" not in str(refused.value)


def test_a_timeline_that_goes_back_in_time_and_below_nothing_has_rows(tmp_path: Path) -> None:
    (tmp_path / "a.raw.json").write_text(
        "[[-1, 0, 5, 0], [9, 1, 4, 2], [3, 2, -100, 2], [3, 1, 7, 7]]"
    )
    rows = category_rows(read_memory_timeline(tmp_path / "a.raw.json"))
    assert json.loads(json.dumps(rows)) == rows


def test_an_execution_trace_whose_nodes_are_each_others_parents_is_read(tmp_path: Path) -> None:
    nodes = [{"id": i, "name": "aten::mm", "rf_id": 7, "ctrl_deps": (i + 1) % 3} for i in range(3)]
    nodes += [{"id": 3, "name": MARKUP, "rf_id": -5, "ctrl_deps": 3}]
    (tmp_path / "et.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    execution = read_execution_trace(tmp_path / "et.json")
    operator = event("aten::mm", 0, 5)
    operator["args"]["External id"] = 7
    trace = read_trace(write_trace(tmp_path / "rank0.json", document([operator], 0, 1)))
    assert correlate(trace, execution).node.tolist() in ([0], [1], [2])


def test_traceml_is_read_through_an_index_and_not_past_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_telemetry(
        tmp_path / "telemetry", lambda rank, step: usual(30.0 + 60 * (rank != 2)), steps=30
    )
    plain = read_telemetry(path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE INDEX i ON step_time_samples (events_json, global_rank, rank, step)")
        db.execute(
            "CREATE TRIGGER t INSERT ON step_time_samples BEGIN DELETE FROM step_time_samples; END"
        )
    db.close()
    assert repr(read_telemetry(path)) == repr(plain)
    monkeypatch.setattr(hostile_sqlite, "MAX_VALUE_BYTES", 1 << 20)
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER t")
        db.execute(
            f"INSERT INTO step_time_samples (global_rank, step, events_json) VALUES (0, 1, "
            f"zeroblob({2 << 20}))"
        )
    db.close()
    with pytest.raises(EvidenceError, match="too big"):
        read_telemetry(path)


def test_names_and_values_of_a_run_of_wandb_stay_inert(tmp_path: Path) -> None:
    rows = [
        history(step, {"loss": "1.5" if step < 30 else "NaN", MARKUP: f'"{"x" * 50}"'})
        for step in range(40)
    ]
    (tmp_path / f"run-{'`x`'}.wandb").write_bytes(wandb_file(rows))
    (found,) = diagnoses_of_files(sort_job_files([tmp_path]))
    assert found.rule == "nan_loss"
    assert not any(
        mark in found.statement + found.subject for mark in ("<!channel>", "\x1b", "\u202e")
    )
