"""Whatever a trace holds: the doctor answers, without foreign markup, and gives the numbers it
quotes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.across_ranks.rank_summary import from_json, summarise, to_json
from faultline.analysis.traces.doctor.job import job_of
from faultline.analysis.traces.doctor.nothing_wrong import nothing_wrong
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given
from tests.analysis.traces.written_traces import document, write_trace

NAMES = (
    "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4", "aten::item",
    "aten::mm", "gloo:all_reduce",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "## forward ##",
    "## backward ##", "torch.save",
    "Optimizer.step#SGD.step", "Torch-Compiled Region: 0/1", "Torch-Compiled Region: 99999999999/1",
    "compile_id=0/9",
    "TorchDynamo Cache Lookup", "cudaLaunchKernel", "cudaMalloc", "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "ncclDevKernel_AllReduce", "Memcpy HtoD (Pageable -> Device)", "gemm", "",
    "<!channel> `evil`\n\x1b[31m", "[memory]",
)  # fmt: skip
CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "kernel",
    "gpu_memcpy",
    "cuda_runtime",
    "overhead",
    "gpu_user_annotation",
    "",
)
TIMES = (0, 1, 5.5, 1e3, 1e4, 2e4, 9e14, 4_294_967_295)


def hostile(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    events = []
    for _ in range(chance.choice((0, 1, 5, 80, 400))):
        args = {
            "stream": chance.choice((0, 7, -1, "x", 2**40)),
            "correlation": chance.randrange(-1, 50),
            "Device Type": chance.choice((0, 1, 99)),
            "Device Id": chance.choice((0, -1, 7)),
            "Total Allocated": chance.choice((0, -5, 2**62, 1e300)),
            "Total Reserved": chance.choice((0, 7)),
            "bytes": chance.choice((0, -1, 1e308, "NaN")),
            "Bytes": chance.choice((1, -(2**62))),
        }
        name = chance.choice(NAMES)
        events.append(
            {
                "ph": "i" if name == "[memory]" else "X",
                "name": name,
                "cat": chance.choice(CATEGORIES),
                "pid": chance.choice((0, 1)),
                "tid": chance.choice((1, 2, "t")),
                "ts": chance.choice(TIMES) + chance.random() * 1e4,
                "dur": chance.choice(TIMES) * chance.choice((0, 1)) + chance.random() * 1e3,
                "args": args,
            }
        )
    return events


@pytest.mark.parametrize("seed", range(60))
def test_hostile_jobs_are_answered(tmp_path: Path, seed: int) -> None:
    paths = [
        write_trace(
            tmp_path / f"rank{rank}.json", document(hostile(seed * 10 + rank), rank, world=3)
        )
        for rank in range(1 + seed % 3)
    ]
    summaries = [from_json(to_json(summarise(read_trace(path)))) for path in paths]
    job = job_of(summaries)
    for d in diagnose(job):
        assert quoted_numbers_are_given(d.statement, dict(d.numbers)), d.statement
        assert not any(c in d.statement for c in "<>\n\x1b")
    assert nothing_wrong(job)
