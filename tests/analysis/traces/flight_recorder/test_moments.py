"""Several dumps of one job: which moment shows the hang."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.flight_recorder.moments import DumpMoment, moment_of_hang
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from tests.analysis.traces.flight_recorder.written_dumps import (
    WrittenRank,
    world,
    write_json,
    write_pickles,
)


def _moment(*paths: list[Path]) -> DumpMoment:
    return moment_of_hang(read_dumps([p for group in paths for p in group])[0])


def _hanging(rounds: int = 5, backend: str = "nccl") -> list[WrittenRank]:
    job = world(3, backend)
    for rank in job:
        rank.calls("0", rounds)
        if rank.rank != 1:
            rank.call("0", pending=True)
    return job


def test_a_dump_of_the_running_job_is_passed_over(tmp_path: Path) -> None:
    running = world(3)
    for rank in running:
        rank.calls("0", 2)
        if rank.rank != 0:
            rank.call("0", pending=True)
    moment = _moment(
        write_pickles(tmp_path / "a", running), write_pickles(tmp_path / "b", _hanging())
    )
    assert moment.analysis.culprits == (1,)


def test_dumps_from_before_the_timeout_are_taken_whatever_their_folders_are_called(
    tmp_path: Path,
) -> None:
    ended = world(3)
    for rank in ended:
        rank.calls("0", 5 if rank.rank == 1 else 6)
    moment = _moment(
        write_pickles(tmp_path / "1", ended), write_pickles(tmp_path / "2", _hanging())
    )
    assert moment.analysis.culprits == (1,)


def test_a_rank_that_left_only_json_completes_the_pickles_of_the_same_moment(
    tmp_path: Path,
) -> None:
    pickles = write_pickles(tmp_path / "fr", _hanging())
    pickles[1].write_bytes(b"")
    moment = _moment(pickles, write_json(tmp_path / "http", _hanging()))
    assert moment.analysis.culprits == (1,)
    assert {r: d.form for r, d in moment.state.dumps.items()} == {
        0: "pickle",
        1: "json",
        2: "pickle",
    }


def test_one_folder_per_node_is_one_set(tmp_path: Path) -> None:
    job = _hanging()
    moment = _moment(*(write_pickles(tmp_path / f"node{r.rank}", [r]) for r in job))
    assert moment.analysis.culprits == (1,)
    assert moment.other_sets == 0


def test_what_two_sets_show_lasts(tmp_path: Path) -> None:
    later = _hanging()
    later[1].call("0", "broadcast", pending=True)
    assert _moment(
        write_json(tmp_path / "1", _hanging()), write_json(tmp_path / "2", later)
    ).lasting
    assert not _moment(write_json(tmp_path / "1", _hanging())).lasting


def test_no_dumps_are_no_hang() -> None:
    assert _moment().analysis.kind == ""


def test_real_jobs_are_judged_by_the_dumps_from_before_the_timeout(shared: Path) -> None:
    for name, culprits in (("hang_skip", (2,)), ("hang_type", (3,))):
        folder = shared / "traces/generated" / name
        moment = _moment(
            *(sorted(folder.glob(p)) for p in ("fr_after_timeout/*", "http/*fr_trace*", "fr/*"))
        )
        assert moment.analysis.culprits == culprits
        assert {Path(d.file).parent.name for d in moment.state.dumps.values()} == {"fr"}


def test_a_job_that_was_held_up_and_went_on_names_by_whom(tmp_path: Path) -> None:
    later = [rank.calls("0", 9) for rank in world(3)]
    moment = _moment(
        write_pickles(tmp_path / "1", _hanging()), write_pickles(tmp_path / "2", later)
    )
    assert moment.analysis.culprits == (1,)
    assert moment.went_on
