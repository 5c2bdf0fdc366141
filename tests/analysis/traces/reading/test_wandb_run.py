"""Runs that wandb wrote to disk."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files
from faultline.analysis.traces.reading.wandb_run import history_rows
from tests.analysis.traces.wandb_files import HEADER, field, history, varint, wandb_file
from tests.lines_run import lines_run

RECORDED = Path(__file__).parents[1] / "recorded" / "run-offline.wandb"


def test_a_run_that_wandb_wrote_is_read_step_by_step() -> None:
    rows = list(history_rows(RECORDED))
    assert [row["_step"] for row in rows] == list(range(60))
    assert [rows[0]["train/loss"], rows[0]["lr"], rows[0]["nested.b.c"]] == [2, 0.001, 0]
    assert math.isnan(rows[41]["train/loss"])
    assert math.isinf(rows[40]["train/grad_norm"])
    assert "note" not in rows[7]
    assert rows[8]["note"] == "xxx"


def test_its_loss_that_becomes_nan_is_told() -> None:
    files = sort_job_files([RECORDED])
    assert [f.kind for f in files.files] == ["wandb_run"]
    found = [d for d in hang_diagnoses(files) if d.rule == "nan_loss"]
    assert [(d.severity, d.steps) for d in found] == [("critical", (40,))]


def test_older_keys_and_typed_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run-a.wandb"
    typed = field(1, field(1, b"loss") + b"\x31" + struct.pack("<d", 1.5)) + field(
        1, field(1, b"n") + b"\x28\x05"
    )
    path.write_bytes(wandb_file([history(3, {"loss": "NaN"}, nested=False), field(2, typed)]))
    first, second = history_rows(path)
    assert first["_step"] == 3
    assert math.isnan(first["loss"])
    assert second == {"loss": 1.5, "n": -3}


def test_a_spike_and_a_loss_of_speed_are_told(tmp_path: Path) -> None:
    rows = [
        history(
            s,
            {
                "train/loss": "9.5" if s == 30 else f"{2 - s / 100}",
                "step_time": "0.1" if s < 50 else "0.2",
            },
        )
        for s in range(100)
    ]
    (tmp_path / "run-abc.wandb").write_bytes(wandb_file(rows))
    found = {d.rule: d.steps for d in hang_diagnoses(sort_job_files([tmp_path]))}
    assert found == {"loss_spike": (30,), "throughput_drop": (50,)}


def test_several_runs_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "run-a.wandb").write_bytes(
        wandb_file([history(s, {"loss": "1.0"}) for s in range(100)])
    )
    (tmp_path / "run-b.wandb").write_bytes(
        wandb_file([history(s, {"loss": "NaN"}) for s in range(50)])
    )
    assert hang_diagnoses(sort_job_files([tmp_path])) == []


def test_a_damaged_block_costs_only_itself(tmp_path: Path) -> None:
    whole = wandb_file(
        [history(s, {"loss": "1.0", "text": '"' + "x" * 500 + '"'}) for s in range(500)]
    )
    damaged = bytearray(whole)
    damaged[40_000:42_000] = b"\xff" * 2000
    path = tmp_path / "run-a.wandb"
    path.write_bytes(bytes(damaged[:-100]))
    steps = [row["_step"] for row in history_rows(path)]
    assert steps[0] == 0
    assert steps[-1] == 498
    assert 400 < len(steps) < 499


def test_a_record_that_lies_about_its_length_costs_less_than_a_line_a_byte(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run-a.wandb"
    liar = varint(2 << 3 | 2) + varint(2**60) + b"x"
    endless = b"\x12" + b"\xff" * 1000
    many = field(2, field(1, field(2, b"k") + field(16, b"1")) * 60_000)
    path.write_bytes(
        wandb_file([liar, endless, many, b"\x00" * 6_000_000, history(1, {"loss": "9" * 5000})])
    )
    assert list(history_rows(path)) == [{"k": 1}, {"_step": 1}]
    assert lines_run(lambda: list(history_rows(path))) < path.stat().st_size


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_survived(tmp_path_factory: object, noise: bytes, record: bytes) -> None:
    folder = tmp_path_factory.mktemp("runs")  # type: ignore[attr-defined]
    for name, data in (
        ("a", HEADER + noise),
        ("b", wandb_file([record, history(1, {"loss": "2"})])),
    ):
        path = folder / name
        path.write_bytes(data)
        rows = list(history_rows(path))
        assert name == "a" or rows[-1]["loss"] == 2
