"""Who made a job hang: every kind of hang on jobs written by hand, and on real dumps."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faultline.analysis.traces.flight_recorder.hang import HangAnalysis, hang_analysis
from faultline.analysis.traces.flight_recorder.job_state import job_state
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from tests.analysis.traces.flight_recorder.written_dumps import WrittenRank, world, write_pickles


def _analysed(folder: Path, ranks: list[WrittenRank], *, only_active: bool = False) -> HangAnalysis:
    dumps, _ = read_dumps(write_pickles(folder, ranks, only_active=only_active))
    return hang_analysis(job_state(dumps))


def _verdict(analysis: HangAnalysis) -> tuple[str, tuple[int, ...]]:
    return analysis.kind, analysis.culprits


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
@pytest.mark.parametrize("only_active", [False, True])
def test_a_rank_that_skips_a_collective_is_waited_for(
    tmp_path: Path, backend: str, only_active: bool
) -> None:
    job = world(4, backend)
    for rank in job:
        rank.calls("0", 5)
        if rank.rank != 2:
            rank.call("0", pending=True)
    if backend == "gloo" and only_active:
        pytest.skip("gloo's groups list no ranks: a rank without entries is in no group")
    analysis = _analysed(tmp_path, job, only_active=only_active)
    assert _verdict(analysis) == ("outside", (2,))
    assert analysis.outside[0].waiting == (0, 1, 3)
    assert analysis.outside[0].operation.seq == 6


def test_what_hangs_behind_the_culprit_is_not_accused(tmp_path: Path) -> None:
    job = world(4, left=(0, 1), right=(2, 3))
    for rank in job:
        rank.calls("0", 2)
    job[0].call("1", pending=True)
    job[2].call("0", pending=True)
    job[3].call("0", pending=True)
    assert _verdict(_analysed(tmp_path, job, only_active=True)) == ("outside", (1,))


def test_two_ranks_can_be_at_fault(tmp_path: Path) -> None:
    job = world(4, left=(0, 1), right=(2, 3))
    job[0].call("1", pending=True)
    job[2].call("2", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("outside", (1, 3))


@pytest.mark.parametrize("odd", [0, 3])
def test_the_minority_calls_the_wrong_collective_also_when_it_is_the_first_rank(
    tmp_path: Path, odd: int
) -> None:
    job = world(4)
    for rank in job:
        rank.calls("0", 5).call(
            "0", "broadcast" if rank.rank == odd else "all_reduce", pending=True
        )
    assert _verdict(_analysed(tmp_path, job)) == ("mismatch", (odd,))


def test_one_against_one_is_decided_by_what_the_group_did_before(tmp_path: Path) -> None:
    job = world(2)
    for rank in job:
        rank.calls("0", 5).call("0", "broadcast" if rank.rank == 1 else "all_reduce", pending=True)
    analysis = _analysed(tmp_path, job)
    assert _verdict(analysis) == ("mismatch", (1,))
    assert analysis.mismatches[0].by_history


def test_one_against_one_without_a_past_accuses_nobody(tmp_path: Path) -> None:
    job = world(2)
    job[0].call("0", "broadcast", pending=True)
    job[1].call("0", "all_reduce", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("mismatch", ())


@pytest.mark.parametrize(
    ("how", "aspect"), [({"size": (4000,)}, "size"), ({"dtype": "Half"}, "data type")]
)
def test_an_uneven_batch_and_a_wrong_data_type_are_found(
    tmp_path: Path, how: dict[str, str], aspect: str
) -> None:
    job = world(4)
    for rank in job:
        rank.calls("0", 5)
        rank.call("0", pending=True, **(how if rank.rank == 0 else {}))  # type: ignore[arg-type]
    analysis = _analysed(tmp_path, job)
    assert _verdict(analysis) == ("mismatch", (0,))
    assert analysis.mismatches[0].aspect == aspect


def test_uneven_all_to_all_is_no_mismatch(tmp_path: Path) -> None:
    job = world(4)
    for rank in job:
        rank.call("0", "all_to_all", pending=True, size=(rank.rank + 1, 8))
    assert _verdict(_analysed(tmp_path, job)) == ("joined", ())


def test_a_slow_rank_is_waited_for_in_its_subgroup(tmp_path: Path) -> None:
    job = world(4, "gloo", dp_0=(0, 1), dp_1=(2, 3))
    for rank in job:
        own = "1" if rank.rank < 2 else "2"
        for _ in range(5):
            rank.call("0").call(own)
        rank.call("0")
        if rank.rank != 2:
            rank.call(own, pending=rank.rank == 3)
    for rank in job[:2]:
        rank.call("0", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("outside", (2,))


def test_who_leaves_out_a_collective_and_goes_on_makes_a_circle(tmp_path: Path) -> None:
    job = world(4, dp_0=(0, 1), dp_1=(2, 3))
    for rank in job:
        own = "1" if rank.rank < 2 else "2"
        for _ in range(5):
            rank.call("0").call(own)
        rank.call("0")
        if rank.rank == 3:
            rank.call(own, pending=True)
            continue
        if rank.rank < 2:
            rank.call(own)
        rank.call("0", pending=True)
    analysis = _analysed(tmp_path, job)
    assert _verdict(analysis) == ("skipped", (2,))
    assert analysis.circle is not None
    assert set(analysis.circle.ranks) == {2, 3}


def test_a_circle_without_habits_accuses_nobody(tmp_path: Path) -> None:
    job = world(2, other=(0, 1))
    job[0].call("0", pending=True)
    job[1].call("1", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("circle", ())


def test_a_device_is_stuck_where_its_peers_have_ended(tmp_path: Path) -> None:
    job = world(4, left=(0, 1), right=(2, 3))
    job[0].call("1", pending=True)
    job[1].call("1").call("0", pending=True)
    for rank in job[2:]:
        rank.call("2").call("0", pending=True)
    assert _verdict(_analysed(tmp_path, job, only_active=True)) == ("stuck", (0,))


def test_a_posted_receive_does_not_hide_a_stuck_device(tmp_path: Path) -> None:
    job = world(4, left=(0, 1), right=(2, 3))
    job[0].call("0", "recv 0<-2", pending=True).call("1", pending=True)
    job[1].call("1").call("0", pending=True)
    for rank in job[2:]:
        rank.call("2").call("0", pending=True)
    job[2].call("0", "send 2->0", pending=True)
    assert _verdict(_analysed(tmp_path, job, only_active=True)) == ("stuck", (0,))


def test_a_broadcast_that_has_not_ended_here_yet_is_no_stuck_device_beside_ranks_that_are_missing(
    tmp_path: Path,
) -> None:
    job = world(6, six=range(6))
    for rank in job:
        rank.call("1", "broadcast", pending=rank.rank == 5)
    for rank in job[:2]:
        rank.call("0", pending=True)
    analysis = _analysed(tmp_path, job, only_active=True)
    assert _verdict(analysis) == ("outside", (2, 3, 4))


def test_counts_of_groups_with_point_to_point_are_not_taken_for_those_of_collectives(
    tmp_path: Path,
) -> None:
    job = world(4)
    for rank in job:
        for _ in range(50):
            rank.call("0", f"send {rank.rank}->{(rank.rank + 1) % 4}")
        rank.calls("0", 3)
        if rank.rank != 2:
            rank.call("0", pending=True)
    dumps, _ = read_dumps(write_pickles(tmp_path, job, only_active=True))
    assert all(d.status[0].enqueued == 50 for d in dumps)
    assert _verdict(hang_analysis(job_state(dumps))) == ("outside", (2,))


def test_gloo_has_no_device_to_be_stuck(tmp_path: Path) -> None:
    job = world(4, "gloo")
    for rank in job:
        rank.calls("0", 5).call("0", pending=rank.rank == 3)
    assert _analysed(tmp_path, job).stuck == ()


def test_a_rank_stuck_outside_goes_before_one_whose_operation_ended_elsewhere(
    tmp_path: Path,
) -> None:
    job = world(4)
    for rank in job:
        rank.calls("0", 5)
        if rank.rank != 1:
            rank.call("0", pending=True)
    job[3].entries[0] |= {"retired": False, "state": "scheduled"}
    analysis = _analysed(tmp_path, job)
    assert _verdict(analysis) == ("outside", (1,))


def test_a_rank_that_died_left_no_dump_and_is_waited_for(tmp_path: Path) -> None:
    job = [rank.calls("0", 5).call("0", pending=True) for rank in world(4) if rank.rank != 1]
    analysis = _analysed(tmp_path, job)
    assert _verdict(analysis) == ("absent", (1,))
    assert analysis.absent[0].waiting == (0, 2, 3)


def test_a_receiver_waits_for_a_sender_that_sends_nothing(tmp_path: Path) -> None:
    job = world(3)
    job[0].call("0", "send 0->1")
    job[1].call("0", "recv 1<-0").call("0", "recv 1<-2", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("outside", (2,))


def test_sender_and_receiver_that_both_stand_ready_accuse_nobody(tmp_path: Path) -> None:
    job = world(2)
    job[0].call("0", "send 0->1", pending=True)
    job[1].call("0", "recv 1<-0", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("joined", ())


def test_a_job_that_runs_hangs_nowhere(tmp_path: Path) -> None:
    assert _verdict(_analysed(tmp_path, [rank.calls("0", 20) for rank in world(4)])) == ("", ())


def test_sizes_that_differed_in_the_past_are_no_mismatch_now(tmp_path: Path) -> None:
    job = world(4)
    for rank in job:
        rank.call("0", size=(rank.rank + 1,)).calls("0", 3)
        if rank.rank != 1:
            rank.call("0", pending=True)
    assert _verdict(_analysed(tmp_path, job)) == ("outside", (1,))


def test_a_rank_whose_dump_was_cut_off_is_not_missing(tmp_path: Path) -> None:
    job = world(3)
    for rank in job:
        rank.calls("0", 40).call("0", pending=True)
    paths = write_pickles(tmp_path, job)
    data = paths[1].read_bytes().replace(b"pg_status", b"pg_statux")
    paths[1].write_bytes(data[: len(data) // 2])
    dumps, _ = read_dumps(paths)
    assert dumps[1].cut_off
    assert hang_analysis(job_state(dumps)).culprits == ()


def test_five_hundred_ranks_take_seconds(tmp_path: Path) -> None:
    job = world(500)
    for rank in job:
        rank.calls("0", 3)
        if rank.rank != 77:
            rank.calls("0", 20, pending=True)
    dumps, _ = read_dumps(write_pickles(tmp_path, job, only_active=True))
    start = time.process_time()
    assert _verdict(hang_analysis(job_state(dumps))) == ("outside", (77,))
    assert time.process_time() - start < 2.5


REAL = [
    ("nvrx_flight_recorder/gpu_error_1st/_dump_*", "stuck", (12, 14)),
    ("nvrx_flight_recorder/lock_gil_1st/_dump_*", "outside", (9, 14)),
    ("generated/hang_skip/fr/*", "outside", (2,)),
    ("generated/hang_skip/fr_after_timeout/*", "outside", (2,)),
    ("generated/hang_skip/http/*fr_trace_json.json", "outside", (2,)),
    ("generated/hang_type/fr/*", "mismatch", (3,)),
    ("generated/hang_type/fr_after_timeout/*", "mismatch", (3,)),
    ("generated/hang_type/http/*fr_trace_json.json", "mismatch", (3,)),
    ("generated/hang_type_truncated/fr/*", "mismatch", (3,)),
]


@pytest.mark.parametrize(("pattern", "kind", "culprits"), REAL)
def test_real_dumps_name_exactly_the_culprits(
    shared: Path, pattern: str, kind: str, culprits: tuple[int, ...]
) -> None:
    dumps, _ = read_dumps(sorted((shared / "traces").glob(pattern)))
    assert _verdict(hang_analysis(job_state(dumps))) == (kind, culprits)
