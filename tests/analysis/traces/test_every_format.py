"""Every kind of file that is known: a real one is recognised and read, a damaged one costs no more
than itself."""

from __future__ import annotations

import gzip
import json
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.traces.per_rank.execution_trace import read_execution_trace
from faultline.analysis.traces.per_rank.memory_categories import category_rows, read_memory_timeline
from faultline.analysis.traces.reading.file_kinds import FileKind
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.memory_snapshot.allocator import GB, Allocator, train
from tests.analysis.traces.written_traces import empty_case
from tests.conftest import SHARED

KINDS: tuple[FileKind, ...] = get_args(FileKind)
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "trace-engine" / "reading.md"
HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
BESIDE: dict[FileKind, tuple[str, ...]] = {
    "xplane": ("xla/recorded/training/host.xplane.pb",),
    "perfetto_trace": ("pftrace/recorded/sdk.pftrace", "pftrace/recorded/rocprofv3.pftrace"),
    "rocprof_json": ("rocprof/recorded/results.json",),
}
"""Files beside the tests of their readers."""
DATA = SHARED / "data" / "traces"
REAL: dict[FileKind, tuple[str, ...]] = {
    "profiler_trace": (
        "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
        "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "dynolog_on_demand/odtrace_3941.json.gz",
    ),
    "execution_trace": ("hta/execution_trace/benchmark_simple_add_et.json.gz",),
    "flight_recorder": (
        "nvrx_flight_recorder/gpu_error_1st/_dump_12",
        "generated/hang_skip/fr/rank_2",
        "generated/hang_skip/http/rank1.fr_trace_json.json",
        "debug_server/fr_trace_json.html",
    ),
    "stack_dump": ("generated/hang_skip/http/rank1.dump_traceback.txt", "debug_server/stacks.html"),
    "debug_answer": ("generated/hang_skip/http/rank1.ping.txt", "debug_server/index.html"),
    "metrics": ("generated/nan_loss/metrics_rank1.jsonl",),
    "log": ("generated/hang_skip/log_rank3.txt", "debug_server/train.log"),
    "memory_timeline": ("hta/memory_analysis/memory_timeline.raw.gz",),
    "nsight_sqlite": ("nsys_sqlite/mock.sqlite.gz",),
    "traceml": (
        "traceml/logs/input_straggler/aggregator/telemetry",
        "traceml/logs/input_straggler/final_summary.json",
    ),
    "label": ("generated/hang_skip/label.json",),
    "other": ("MANIFEST.md",),
}
"""Files of the public data sets, by kind."""
SPAN = {
    "rank": 0,
    "source": "trainer",
    "step": 1,
    "time_us": 5,
    "log_type": "event",
    "log_type_name": "step_start",
}


def files_of(kind: FileKind, folder: Path) -> list[Path]:
    """Files of a kind: real ones, or what the program that writes them would write."""
    made = folder / "made"
    made.mkdir(parents=True)
    if kind == "memory_snapshot":
        allocator = Allocator(reserved=12 * GB)
        train(allocator, 4)
        return [allocator.write(made / "000003_step_4.pickle")]
    if kind == "wandb_run":
        return [RECORDED / "run-offline.wandb"]
    if kind in BESIDE:
        return [HERE / name for name in BESIDE[kind]]
    note = {
        "capture": "c1",
        "files": [{"path": "rank0.json", "taken": "2026-03-01T12:00:00+00:00"}],
    }
    written = {
        "capture_note": ("capture.json", json.dumps(note).encode()),
        "structured_log": ("trainer.global_rank_0.jsonl", json.dumps(SPAN).encode() + b"\n"),
        "nsight_report": ("run.nsys-rep", b"\0\1NVIDIA"),
        "empty": ("rank0.json", b""),
    }
    if kind in written:
        name, content = written[kind]
        (made / name).write_bytes(content)
        return [made / name]
    if not DATA.is_dir():
        pytest.skip("the public data sets are not beside the project")
    return [DATA / name for name in REAL[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_every_kind_is_recognised(kind: FileKind, tmp_path: Path) -> None:
    files = files_of(kind, tmp_path)
    assert [f.kind for f in sort_job_files(files).files] == [kind] * len(files)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_of_every_kind_are_read_or_named(kind: FileKind, tmp_path: Path) -> None:
    """An investigation of them ends with findings, or with none: never with an error."""
    dice = random.Random(5)
    for source in files_of(kind, tmp_path):
        for turn in range(12):
            folder = tmp_path / f"{source.name}-{turn}"
            target = folder / "traces" / source.parent.name / source.name
            target.parent.mkdir(parents=True)
            target.write_bytes(damaged(source.read_bytes(), dice))
            assert all(len(f.sentence) < 2_000 for f in training_findings(empty_case(folder)))
            for read in (lambda p: category_rows(read_memory_timeline(p)), read_execution_trace):
                with suppress(EvidenceError):
                    read(target)


def damaged(whole: bytes, dice: random.Random) -> bytes:
    """Cut, overwritten, doubled; packed files inside of their packing every other time."""
    packed = whole[:2] == b"\x1f\x8b" and dice.random() < 0.5
    data = bytearray(gzip.decompress(whole)[: 1 << 20] if packed else whole)
    for _ in range(dice.choice((0, 1, 30)) if data else 0):
        at = dice.randrange(len(data))
        data[at : at + dice.choice((1, 1, 40))] = dice.choice(
            (b"\0", b"\xff", b"9" * 30, b"[[{", b'"', b"\n", b"NaN")
        )
    end = dice.choice((len(data), dice.randrange(len(data) + 1)))
    data = data[:end] * dice.choice((1, 1, 2))
    return gzip.compress(bytes(data), 1) if packed else bytes(data)


def test_the_documentation_lists_every_kind() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \|",
        DOCUMENTATION.read_text().partition("## Every kind of file")[2],
        re.MULTILINE,
    )
    assert listed == list(KINDS)
