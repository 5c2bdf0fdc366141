"""Metrics and logs: NaN, spikes, slow-downs, exceptions, exit codes and known failures, in hostile
text too."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.job_logs.diagnoses import log_diagnoses, metrics_diagnoses
from faultline.analysis.traces.job_logs.metrics import RankMetrics, read_metrics
from faultline.analysis.traces.job_logs.rank_logs import JobLogs, read_rank_logs
from faultline.analysis.traces.job_logs.signatures import SIGNATURES, XIDS, match
from faultline.analysis.traces.reading.job_files import sort_job_files

NAN = float("nan")


def _metrics(folder: Path) -> list[RankMetrics]:
    return read_metrics(sort_job_files([folder]).of("metrics", "log"))


def _write(
    folder: Path, rank: int, losses: list[float], step_ms: list[float] | None = None
) -> None:
    lines = []
    for step, loss in enumerate(losses):
        row = {"rank": rank, "step": step, "loss": loss}
        lines.append(json.dumps(row | ({"step_ms": step_ms[step]} if step_ms else {})))
    (folder / f"metrics_rank{rank}.jsonl").write_text("\n".join(lines))


def _diagnosed(folder: Path) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    return [(d.rule, d.severity, d.ranks, d.steps) for d in metrics_diagnoses(_metrics(folder))]


def test_the_first_rank_with_nan_is_named_on_real_metrics(shared: Path) -> None:
    assert _diagnosed(shared / "traces/generated/nan_loss") == [
        ("nan_loss", "critical", (1,), (12,))
    ]


@pytest.mark.parametrize(
    "name", ["healthy", "fsdp_healthy", "dataloader_fixed", "checkpoint_stall", "no_overlap"]
)
def test_jobs_whose_numbers_are_sound_get_no_diagnosis(shared: Path, name: str) -> None:
    assert _diagnosed(shared / "traces/generated" / name) == []


def test_nan_on_all_ranks_at_once_blames_none(tmp_path: Path) -> None:
    for rank in range(3):
        _write(tmp_path, rank, [2.0] * 5 + [NAN] * 3)
    assert _diagnosed(tmp_path) == [("nan_loss", "critical", (), (5,))]


def test_nan_that_passes_is_a_warning(tmp_path: Path) -> None:
    _write(tmp_path, 0, [2.0, 2.0, float("inf"), 2.0])
    _write(tmp_path, 1, [2.0] * 4)
    assert _diagnosed(tmp_path) == [("nan_loss", "warning", (0,), (2,))]


def test_infinite_norms_of_loss_scaling_are_nothing(tmp_path: Path) -> None:
    rows = [
        {"step": s, "loss": 2.0, "grad_norm": float("inf") if s in (4, 5) else 1.0}
        for s in range(12)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert _diagnosed(tmp_path) == []
    rows += [{"step": s, "loss": 2.0, "grad_norm": NAN} for s in range(12, 18)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert _diagnosed(tmp_path)[0][0] == "nan_loss"


def test_a_loss_that_jumps_is_a_spike_and_noise_is_none(tmp_path: Path) -> None:
    noise = random.Random(3)
    sound = [3.0 + noise.gauss(0, 0.1) for _ in range(60)]
    _write(tmp_path, 0, sound)
    assert _diagnosed(tmp_path) == []
    _write(tmp_path, 0, [*sound, 9.0, 8.0, *sound])
    assert _diagnosed(tmp_path) == [("loss_spike", "info", (), (60,))]
    _write(tmp_path, 0, [*sound, *[9.0] * 10])
    assert _diagnosed(tmp_path) == [("loss_spike", "warning", (), (60,))]


def test_a_job_that_becomes_slower_has_an_onset_and_noise_has_none(tmp_path: Path) -> None:
    noise = random.Random(5)
    fast = [100 * (1 + 0.05 * noise.random()) for _ in range(100)]
    slow = [150 * (1 + 0.05 * noise.random()) for _ in range(50)]
    for rank in range(2):
        _write(tmp_path, rank, [2.0] * 150, fast + slow)
    found = metrics_diagnoses(_metrics(tmp_path))
    assert [(d.rule, d.steps) for d in found] == [("throughput_drop", (100,))]
    assert 30 < found[0].numbers["lost_percent"] < 36
    for rank in range(2):
        _write(tmp_path, rank, [2.0] * 150, [100 * (1 + noise.random()) for _ in range(150)])
    assert _diagnosed(tmp_path) == []


LINES = [
    (
        "\x1b[31mstep:  7  \x1b[32mloss: 12.23  \x1b[33mgrad_norm:  1.25  memory: 1.02GiB(1.07%)  tps: 22,123",  # noqa: E501
        7,
        12.23,
    ),
    (
        " [2026-01-01] iteration       10/     100 | consumed samples: 80 | lm loss: 1.034E+01 | "
        "grad norm: 2.1 |",
        10,
        10.34,
    ),
    ("{'loss': 2.3, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 0.1, 'step': 4}", 4, 2.3),
    ('{"step": 5, "loss_metrics/global_avg_loss": 1.5, "throughput(tps)": 100}', 5, 1.5),
    ('{"_step": 6, "train/loss": "NaN"}', 6, NAN),
    ('{"step": 8, "loss": Infinity}', 8, float("inf")),
    ("Epoch 3 step 200 loss=nan", 200, NAN),
]


@pytest.mark.parametrize(("line", "step", "loss"), LINES)
def test_metrics_of_every_writer_are_read(
    tmp_path: Path, line: str, step: int, loss: float
) -> None:
    (tmp_path / "train.log").write_text(f"starting\n{line}\n")
    read = _metrics(tmp_path)
    assert len(read) == 1
    assert read[0].series("loss") == [(step, pytest.approx(loss, nan_ok=True))]


CONSOLE = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/app/train.py", line 44, in main
[rank3]:     loss = model(x)
[rank3]:   File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl
[rank1]:[E1121 12:00:00.1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6) ran for 600029 ms
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 79 GiB
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:00
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 1234)
srun: error: node01: tasks 4-6: Killed
NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, Graphics SM Warp Exception
"""  # noqa: E501


def _logs(folder: Path, text: str) -> JobLogs:
    (folder / "console.log").write_text(text)
    return read_rank_logs(sort_job_files([folder]).of("log"))


def _by_rule(logs: JobLogs) -> dict[str, JobDiagnosis]:
    return {d.rule: d for d in log_diagnoses(logs, range(8))}


def test_a_console_log_is_taken_apart_by_rank(tmp_path: Path) -> None:
    logs = _logs(tmp_path, CONSOLE)
    raised = logs.ranks[3].exceptions[0]
    assert raised.type == "torch.OutOfMemoryError"
    assert raised.frame is not None
    assert (raised.frame.function, raised.frame.line) == ("main", 44)
    assert logs.exits == {3: 1, 4: -9, 5: -9, 6: -9}
    assert logs.root_cause == 3
    assert list(logs.ranks[1].failures) == ["nccl_watchdog_timeout"]


def test_memory_and_hardware_are_named_and_timeouts_accuse_nobody(tmp_path: Path) -> None:
    found = _by_rule(_logs(tmp_path, CONSOLE))
    assert set(found) == {"out_of_memory", "hardware_error"}
    assert found["out_of_memory"].ranks == (3,)
    assert "main (train.py:44)" in found["out_of_memory"].statement
    assert found["hardware_error"].numbers["xid"] == 79
    assert "drain" in found["hardware_error"].fix.lower()


def test_an_exception_of_one_rank_is_its_own_and_of_all_ranks_nobodys(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "train.py", line 5, in load\nValueError: '
        "bad shard\n"
    )
    (tmp_path / "log_rank1.txt").write_text(trace)
    for rank in (0, 2):
        (tmp_path / f"log_rank{rank}.txt").write_text(
            "RuntimeError: [tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:62594.\n"
        )
    logs = read_rank_logs(sort_job_files([tmp_path]).of("log"))
    assert [(d.rule, d.ranks) for d in log_diagnoses(logs, range(3))] == [("exception", (1,))]
    for rank in (0, 2):
        (tmp_path / f"log_rank{rank}.txt").write_text(trace)
    logs = read_rank_logs(sort_job_files([tmp_path]).of("log"))
    assert [(d.rule, d.ranks) for d in log_diagnoses(logs, range(3))] == [("exception", ())]


def test_failures_of_hosts_and_schedulers_are_told_the_clearest_first(tmp_path: Path) -> None:
    text = (
        "[rank2]: INFO: task python:12 blocked for more than 120 seconds.\n[rank2]: nfs: "
        "server n not responding, x\n"
    )
    found = _by_rule(_logs(tmp_path, text))
    assert set(found) == {"known_failure"}
    assert (found["known_failure"].ranks, found["known_failure"].details["signature"]) == (
        (2,),
        "network_storage_stalled",
    )
    assert "rank 2: network storage does not answer" in found["known_failure"].statement


def test_of_a_ranks_driver_errors_the_clearest_is_told(tmp_path: Path) -> None:
    codes = ("45", "63", "79", "31", "9999")
    text = "".join(f"[rank1]: NVRM: Xid (PCI:0000:3b:00): {code}, pid=1, text\n" for code in codes)
    logs = _logs(tmp_path, text + "[rank0]: NVRM: Xid (PCI:0000:1b:00): 63, pid=1, text\n")
    found = _by_rule(logs)["hardware_error"]
    assert (found.numbers["xid"], found.ranks, found.severity) == (79, (0, 1), "critical")
    assert [row["xid"] for row in found.details["xids"]] == [79, 9999, 63, 63]
    remapped = _by_rule(_logs(tmp_path, "[rank0]: NVRM: Xid (PCI:0000:1b:00): 63, pid=1, text\n"))[
        "hardware_error"
    ]
    assert remapped.severity == "warning"


def test_made_up_numbers_of_driver_errors_stay_bounded(tmp_path: Path) -> None:
    logs = _logs(
        tmp_path, "".join(f"NVRM: Xid (PCI:0000:3b:00): {code}, x\n" for code in range(1000, 3000))
    )
    assert len(logs.ranks[None].failures) == 500
    assert "hardware_error" in _by_rule(logs)


def test_a_process_that_runs_out_of_memory_by_itself_is_named(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "train.py", line 5, in load\nMemoryError\n'
    (tmp_path / "log_rank1.txt").write_text(trace)
    logs = read_rank_logs(sort_job_files([tmp_path]).of("log"))
    assert [(d.rule, d.ranks) for d in log_diagnoses(logs, range(3))] == [("out_of_memory", (1,))]


def test_failures_are_counted_over_all_parts_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.analysis.traces.job_logs.rank_logs.LINES_AT_ONCE", 3)
    logs = _logs(tmp_path, "step done\n[rank4]: OSError: No space left on device\n" * 7)
    assert {name: f.count for name, f in logs.ranks[4].failures.items()} == {"disk_full": 7}


SHOWN = [
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "host_out_of_memory"),
    ("RuntimeError: CUDA error: device-side assert triggered", "device_assert"),
    ("RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly", "dataloader_worker"),
    ("OSError: [Errno 28] No space left on device", "disk_full"),
    (
        "node1: NCCL WARN NET/IB : Got completion from peer with status=12 error",
        "ib_completion_error",
    ),
    ("mlx5_0: Port 1 Link down", "ib_link_down"),
    ("Fatal Python error: Segmentation fault", "segmentation_fault"),
    ("torch.distributed.DistBackendError: NCCL error: ncclRemoteError", "nccl_error"),
]


@pytest.mark.parametrize(("line", "name"), SHOWN)
def test_known_failures_are_recognised(line: str, name: str) -> None:
    found = match(line)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "line",
    [
        "step 5 done",
        "timeout set to 600",
        "ECC enabled",
        "loading mlx5_0 driver",
        "Xid table loaded",
        "oom score",
    ],
)
def test_ordinary_lines_are_none(line: str) -> None:
    assert match(line) is None


def test_every_signature_says_what_it_means_what_to_do_and_where_from() -> None:
    assert len({s.name for s in SIGNATURES}) == len(SIGNATURES)
    assert all(s.words and s.meaning and s.action and s.source for s in SIGNATURES)
    assert all(x.meaning and x.action for x in XIDS.values())


def test_hostile_text_takes_linear_time(tmp_path: Path) -> None:
    words = "".join(f"{s.words[0]} " for s in SIGNATURES)
    lines = [
        words * 300,
        "WorkNCCL(" * 2_000 + "timeout",
        "a." * 8_000 + "Error: x",
        "step: " * 2_500 + "loss: " * 500,
        '{"step": 1, "loss": ' + "[" * 15_000,
        '{"step": 1, "loss": ' + "9" * 15_000 + "}",
        '  File "' + "a" * 15_000,
        "srun: error: n: tasks " + "1-99999999," * 1_000 + ": Killed",
        "  rank      : 99999999 (local_rank: 0)",
        "x" * 5_000_000,
        "\x00\xff\x1b[",
    ]
    (tmp_path / "log_rank0.txt").write_text("ok\n" + "\n".join(lines * 20))
    (tmp_path / "metrics_rank0.jsonl").write_text('{"step": 0, "loss": 1}\n' + "\n".join(lines * 5))
    start = time.process_time()
    files = sort_job_files([tmp_path])
    read_rank_logs(files.of("log"))
    read_metrics(files.of("metrics", "log"))
    assert time.process_time() - start < 20


def test_of_a_long_log_the_end_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultline.analysis.traces.job_logs.lines.MAX_HEAD_BYTES", 10_000)
    monkeypatch.setattr("faultline.analysis.traces.job_logs.lines.MAX_TAIL_BYTES", 10_000)
    (tmp_path / "log_rank0.txt").write_text("step done\n" * 100_000 + "ValueError: at the end\n")
    logs = read_rank_logs(sort_job_files([tmp_path]).of("log"))
    assert [e.type for e in logs.ranks[0].exceptions] == ["ValueError"]
    assert logs.ranks[0].lines < 3_000
