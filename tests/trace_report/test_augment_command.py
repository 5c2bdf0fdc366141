"""`--counters FILE` and `--overlay FILE` write one rank's trace again, with more in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.analysis.traces.written_traces import document, event, write_trace
from tests.trace_report.command import trace, write_job


def on_a_device(folder: Path) -> Path:
    """A step with two launches and their kernels."""
    events = [
        event("ProfilerStep#0", 0.0, 100.0, cat="user_annotation"),
        event("aten::mm", 1.0, 50.0),
    ]
    for number, at in enumerate((5.0, 10.0), start=1):
        events.append(event("cudaLaunchKernel", at, 2.0, cat="cuda_runtime", correlation=number))
        kernel = event(
            "gemm", 20.0 * number, 15.0, cat="kernel", tid=7, stream=7, correlation=number, device=0
        )
        events.append(kernel)
    return write_trace(folder / "rank0.json", document(events, 0, 1))


@pytest.mark.parametrize(
    ("option", "added"), [("--counters", '"ph": "C"'), ("--overlay", '"critical": 1')]
)
def test_the_trace_is_written_with_more_in_it(tmp_path: Path, option: str, added: str) -> None:
    target = tmp_path / "more.json.gz"
    done = trace(on_a_device(tmp_path), option, target)
    assert done.returncode == 0, done.stderr
    text = gzip.decompress(target.read_bytes()).decode()
    assert added in text
    assert "gemm" in {e["name"] for e in json.loads(text)["traceEvents"]}
    assert done.stderr.startswith(f"faultline: wrote {target}: ")


def test_of_several_ranks_one_must_be_named(tmp_path: Path) -> None:
    folder, target = write_job(tmp_path / "job"), tmp_path / "more.json"
    done = trace(folder, "--overlay", target)
    assert (done.returncode, target.exists()) == (2, False)
    assert done.stderr == "faultline: --overlay: there are 4 ranks: say which one with --rank\n"
    assert trace(folder, "--overlay", target, "--rank", 2).returncode == 0
    assert target.exists()


def test_a_trace_is_never_written_over_itself(tmp_path: Path) -> None:
    source = on_a_device(tmp_path)
    before = source.read_bytes()
    done = trace(source, "--counters", source)
    assert done.returncode == 2
    assert "is the trace itself" in done.stderr
    assert source.read_bytes() == before


def test_a_step_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = trace(on_a_device(tmp_path), "--overlay", tmp_path / "x.json", "--step", 9)
    assert done.returncode == 2
    assert done.stderr == "faultline: --step: rank 0 has no step 9\n"
