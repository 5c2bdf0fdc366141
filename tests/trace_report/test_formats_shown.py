"""The terminal names the format that it read, and the phases of an inference server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.analysis.traces.per_rank.test_serving import served
from tests.analysis.traces.written_traces import document
from tests.trace_report.command import faultline, trace


def test_each_phase_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document(served())))
    printed = " ".join(faultline("trace", str(path)).stdout.split())
    assert (
        "SGLang prefill: 1 pass, 0.02 ms on the host, 0.11 on the device, "
        "512 prefill tokens, 2 kernels a pass"
    ) in printed
    assert "SGLang decode: 2 passes, 0.01 ms on the host" in printed


def test_every_format_is_named_and_read() -> None:
    folder = Path(__file__).parents[1] / "analysis" / "traces"
    named = {
        "xla/recorded/training": "XPlane profile (JAX, XLA)",
        "pftrace/recorded/sdk.pftrace": "Perfetto trace",
        "pftrace/recorded/rocprofv3.pftrace": "rocprofv3's Perfetto trace",
        "rocprof/recorded/results.json": "rocprofv3's JSON",
    }
    for path, name in named.items():
        ran = trace(folder / path, columns=200)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines()[0].endswith(name)
