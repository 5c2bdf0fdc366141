"""Work by family of a real training job: the families' times are those of the kernels."""

from __future__ import annotations

import pytest

from faultline.analysis.traces.columns.device import device_work
from faultline.analysis.traces.per_rank.kernel_families import rows
from faultline.analysis.traces.reading.kineto import read_trace, read_trace_stream
from tests.conftest import SHARED

DDP = SHARED / "data/traces/tracelens/mi300/resnet_act_checkpoint.json.gz"


@pytest.mark.skipif(not DDP.is_file(), reason="the public data sets are not beside the project")
def test_families_of_a_real_job_sum_to_its_work() -> None:
    trace = read_trace(DDP)
    found = rows(trace)
    work = device_work(trace)
    assert sum(row["total_ns"] for row in found) == int((work.end - work.start).sum())
    assert sum(row["kernels"] for row in found) == len(work)
    assert (found[0]["library"], found[0]["work"]) == ("NCCL, RCCL", "collective")
    assert sum(row["time_percent"] for row in found) == pytest.approx(100, abs=0.5)
    libraries = {row["library"] for row in found}
    assert {"MIOpen", "Composable Kernel", "PyTorch", "runtime"} <= libraries


def test_a_trace_without_a_device_has_none() -> None:
    assert rows(read_trace_stream("rank0.json", [b'{"traceEvents": []}'])) == []
