"""Jobs that serve: no steps, no backward pass. Launches can bound them, and their memory is
reserved by design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.traces.device_traces import GEMM, kernel, launch
from tests.analysis.traces.doctor.written_ranks import (
    accused,
    gpu_steps,
    informed,
    one_rank,
    quoted_numbers_are_given,
    the,
)
from tests.analysis.traces.written_traces import event

GB = 10**9
DEVICE = {"deviceProperties": [{"name": "NVIDIA A100", "totalGlobalMem": 40 * GB}]}


def decoding(
    kernels: int = 2_000, *, each_us: float = 4.0, every_us: float = 20.0, ahead_us: float = 0.0
) -> list[dict[str, Any]]:
    """A host that launches one small kernel after another; each runs 6 us after its launch, or
    `ahead_us` later."""
    events = []
    for i in range(kernels):
        at = 1_000.0 + i * every_us
        events.append(launch(at, 5.0, i + 1))
        events.append(kernel(GEMM, at + 6.0 + ahead_us, each_us, correlation=i + 1))
    return events


def memory(at: float, allocated: float, reserved: float) -> dict[str, Any]:
    known = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 1}
    totals = {"Total Allocated": int(allocated), "Total Reserved": int(reserved)}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": at,
        "args": known | totals,
    }


def test_decoding_that_waits_for_launches_is_told_without_steps(tmp_path: Path) -> None:
    found = the("launch_bound", one_rank(tmp_path, decoding()))
    assert (found.severity, found.subject) == ("warning", "rank 0")
    assert found.statement == (
        "rank 0 runs 2000 kernels of 4 us on average; the accelerator is busy only 20 % of the "
        "time and waits 80 % of it for the host to launch the next kernel"
    )
    assert "CUDA graphs" in found.fix
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(decoding(each_us=15.0), id="busy"),
        pytest.param(decoding(400), id="few kernels"),
        pytest.param(decoding(ahead_us=500.0), id="launched long before"),
        pytest.param(decoding(1_200, every_us=1_100.0), id="waiting for requests"),
        pytest.param(
            [*decoding(), event("autograd::engine::evaluate_function: MmBackward0", 1_000.0, 9.0)],
            id="training",
        ),
    ],
)
def test_what_is_not_bound_by_launches_is_not_called_so(
    tmp_path: Path, events: list[dict[str, Any]]
) -> None:
    job = one_rank(tmp_path, events)
    assert "launch_bound" not in accused(job) + informed(job)


def test_a_cache_that_takes_what_there_is_presses_nobody(tmp_path: Path) -> None:
    held = [memory(1_000.0 + i, 37.5 * GB, 38 * GB) for i in range(20)]
    assert "memory_pressure" not in accused(one_rank(tmp_path, [*decoding(), *held], DEVICE))


def test_a_server_whose_memory_still_grows_is_near_its_limit(tmp_path: Path) -> None:
    growing = [memory(1_000.0 + i, 30 * GB, (30 + 0.4 * i) * GB) for i in range(21)]
    job = one_rank(tmp_path, [*decoding(each_us=15.0), *growing], DEVICE)
    assert "memory_pressure" in informed(job)


def test_memory_reserved_from_the_first_step_is_not_fragmented(tmp_path: Path) -> None:
    def reserved(step: int, at: float) -> list[dict[str, Any]]:
        return [memory(at + 10.0, 5 * GB, 30 * GB)]

    assert "memory_fragmentation" not in informed(one_rank(tmp_path, gpu_steps(reserved), DEVICE))


def test_a_reserve_that_grows_far_beyond_what_is_allocated_is_fragmented(tmp_path: Path) -> None:
    def growing(step: int, at: float) -> list[dict[str, Any]]:
        return [memory(at + 10.0, 5 * GB, (10 + 4 * step) * GB)]

    assert "memory_fragmentation" in informed(one_rank(tmp_path, gpu_steps(growing), DEVICE))
