from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.traces.across_ranks.written_jobs import (
    FORWARD_US,
    comparison_of,
    gpu_job,
    nccl,
)
from tests.analysis.traces.written_traces import event, job

LATE = {(2, step): 6_000.0 for step in range(8)}


def test_the_rank_that_is_always_late_is_charged_with_the_gap_it_makes(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us=LATE))
    assert [b.rank for b in found.stragglers] == [2]
    charged = found.blame.ranks[2]
    # Rank 3 arrives 3 us after rank 0, so rank 2, 6 ms + 2 us late, is 5.999 ms behind the second
    # last.
    assert charged.blame_ns == 8 * 5_999_000
    assert (charged.steps_blamed, charged.last_arrivals) == (8, 8)
    assert charged.share == pytest.approx(8 * 5.999 / 80)


def test_its_clearest_late_arrivals_can_be_opened(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us=LATE))
    late = found.blame.ranks[2].clearest
    assert len(late) == 3
    summary = found.job.ranks[2]
    assert late[0].event in summary.collectives.event
    assert (late[0].operation, late[0].waited_ns, late[0].file) == (
        "all_reduce",
        5_999_000,
        "rank2.json",
    )
    assert late[0].step in range(8)


def test_a_rank_that_is_late_by_little_at_every_collective_is_no_straggler(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job())
    assert found.comparable
    assert found.stragglers == ()
    assert found.blame.ranks[3].last_arrivals == 8
    assert found.blame.ranks[3].share < 0.001


def test_one_long_pause_is_an_outlier_step_and_no_straggler(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us={(1, 4): 90_000.0}, late_in="torch.save"))
    assert found.blame.ranks[1].share > 0.5
    assert found.stragglers == ()
    (slow,) = found.slow_steps
    assert (slow.rank, slow.step) == (1, 4)
    assert slow.operation is not None
    assert slow.operation.name == "torch.save"
    assert slow.operation.rank_ms == pytest.approx(92.0)


def test_jitter_of_a_few_steps_length_is_no_outlier(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us={(1, 4): 30_000.0}))
    assert found.comparable
    assert found.slow_steps == ()


def test_a_step_that_is_long_on_every_rank_is_nobodys(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us={(rank, 4): 90_000.0 for rank in range(4)}))
    assert found.slow_steps == ()
    assert [(o.step, round(o.ratio, 1)) for o in found.outlier_steps] == [(4, 9.4)]


def test_two_buckets_in_flight_wait_only_once(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    for events in traces:
        events += [
            dict(e, tid=3, args={"Input Dims": [[32]]})
            for e in events
            if e["name"] == "gloo:all_reduce"
        ]
    found = comparison_of(tmp_path, traces)
    assert len(found.matched) == 16
    assert found.blame.ranks[2].blame_ns == 8 * 5_999_000


def test_a_late_device_is_a_straggler_too(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, gpu_job(late_us={1: 8_000.0}))
    assert [b.rank for b in found.stragglers] == [1]
    assert found.blame.ranks[1].steps_blamed == 6


def test_lateness_that_the_others_spend_computing_hurts_nobody(tmp_path: Path) -> None:
    traces = gpu_job(late_us={1: 8_000.0})
    for rank in (0, 2, 3):
        waits = [e for e in traces[rank] if e["name"].startswith("nccl")]
        traces[rank] += [
            event(
                "gemm_overlapped",
                e["ts"],
                8_000.0,
                cat="kernel",
                tid=7,
                stream=7,
                correlation=90_000 + i,
            )
            for i, e in enumerate(waits)
        ]
    found = comparison_of(tmp_path, traces)
    assert found.blame.ranks[1].last_arrivals == 6
    assert found.blame.ranks[1].share < 0.01
    assert found.stragglers == ()


def test_who_waited_for_a_straggler_in_one_group_is_not_blamed_in_another(tmp_path: Path) -> None:
    # Ranks 0-1 and 2-3 are tensor-parallel pairs, 0-2 and 1-3 reduce gradients. Rank 1 is late,
    # rank 0 waits for it, and both come late to rank 2 and rank 3.
    traces: list[list[dict[str, Any]]] = [[], [], [], []]
    for step in range(6):
        at = 20_000.0 * step
        for rank, events in enumerate(traces):
            pair, other = ("[0, 1]", "1") if rank < 2 else ("[2, 3]", "2"), rank % 2
            computed = at + 1_000.0 + (9_000.0 if rank == 1 else rank)
            synced = at + (10_500.0 if rank < 2 else 1_500.0)
            told = {
                "Process Group Name": pair[1],
                "Process Group Ranks": pair[0],
                "Group size": 2,
                "Seq": step,
            }
            wide = {
                "Process Group Name": f"d{other}",
                "Process Group Ranks": f"[{other}, {other + 2}]",
                "Seq": step,
            }
            events += [
                event(f"ProfilerStep#{step}", at, 20_000.0, cat="user_annotation"),
                nccl("AllReduce", computed, synced, 10 * step, **told),
                nccl(
                    "AllReduce",
                    synced + 10.0,
                    at + 12_000.0,
                    10 * step + 1,
                    **wide,
                    **{"Group size": 2},
                ),
            ]
    found = comparison_of(tmp_path, traces)
    assert [b.rank for b in found.stragglers] == [1]
    assert found.blame.ranks[0].share < 0.1


def test_a_rank_that_waits_for_its_input_from_the_stage_before_is_not_blamed(
    tmp_path: Path,
) -> None:
    traces = gpu_job(late_us={1: 8_000.0})
    late = [e for e in traces[1] if e["name"].startswith("nccl")]
    traces[1] += [
        nccl("SendRecv", e["ts"] - 8_000.0, e["ts"], 0, **{"Collective name": "recv"}) for e in late
    ]
    found = comparison_of(tmp_path, traces)
    assert found.blame.ranks[1].share < 0.01


def test_ranks_that_are_too_few_steps_alone_or_most_missing_accuse_nobody(tmp_path: Path) -> None:
    few = comparison_of(tmp_path / "few", gpu_job(steps=2, late_us={1: 8_000.0}))
    assert few.why_not is not None
    assert few.why_not.numbers == {"steps": 2.0, "steps_needed": 3.0}
    alone = comparison_of(tmp_path / "alone", gpu_job(ranks=1))
    assert alone.why_not is not None
    assert "one rank alone" in alone.why_not.sentence
    sampled = comparison_of(tmp_path / "sampled", gpu_job(ranks=2, late_us={1: 8_000.0}), world=128)
    assert sampled.why_not is not None
    assert sampled.why_not.sentence.startswith("traces of 2 of 128 ranks")
    assert few.stragglers + alone.stragglers + sampled.stragglers == ()


def test_what_the_straggler_does_more_of_is_named(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, gpu_job(slower={3: 3.0}))
    assert [b.rank for b in found.stragglers] == [3]
    part = found.extra_part(3)
    assert part is not None
    assert part.name == "backward pass"
    operation = found.extra_operation(3, part.extra_ms)
    assert operation is not None
    assert operation.name == "gemm_backward"
    assert found.steps[3].ms("forward pass") == pytest.approx(3 * FORWARD_US / 1000)
    assert [
        s.rank for s in found.slow_devices
    ] == []  # three kernels are too few to accuse a device


@pytest.mark.parametrize(("steps_late", "accused"), [(4, []), (5, [2])])
def test_a_straggler_holds_up_more_than_half_of_the_steps(
    tmp_path: Path, steps_late: int, accused: list[int]
) -> None:
    found = comparison_of(tmp_path, job(late_us={(2, step): 9_000.0 for step in range(steps_late)}))
    assert found.blame.ranks[2].share > 0.2
    assert found.blame.ranks[2].steps_blamed == steps_late
    assert [b.rank for b in found.stragglers] == accused
