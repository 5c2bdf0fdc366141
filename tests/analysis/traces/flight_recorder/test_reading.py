"""Dumps from files: every form and age, and the ones that say nothing."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.flight_recorder.hang import hang_analysis
from faultline.analysis.traces.flight_recorder.job_state import job_state
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from tests.analysis.traces.flight_recorder.written_dumps import (
    WrittenRank,
    world,
    write_json,
    write_pickles,
)


def _job() -> list[WrittenRank]:
    return [rank.calls("0", 3).call("0", pending=True, size=(8, 4)) for rank in world(2)]


def test_a_pickle_gives_groups_counts_entries_and_where_they_were_called(tmp_path: Path) -> None:
    dumps, unread = read_dumps(write_pickles(tmp_path, _job()))
    assert not unread
    first = dumps[0]
    assert (first.rank, first.rank_source, first.form, first.version) == (
        0,
        "file name",
        "pickle",
        "2.9",
    )
    assert first.groups["0"].ranks == (0, 1)
    assert (first.status[0].enqueued, first.status[0].completed) == (4, 3)
    assert [e.seq for e in first.pending] == [4]
    last = first.entries[-1]
    assert (last.backend, last.op, last.input_sizes) == ("nccl", "all_reduce", ((8, 4),))
    assert (last.frames[1].function, last.frames[1].file, last.frames[1].line) == (
        "train_step",
        "train.py",
        10,
    )


def test_json_says_the_same_without_frames(tmp_path: Path) -> None:
    dumps, unread = read_dumps(write_json(tmp_path, _job()))
    assert not unread
    assert (dumps[1].rank, dumps[1].form, dumps[1].status[0].enqueued) == (1, "json", 4)
    assert [e.seq for e in dumps[1].pending] == [4]
    assert dumps[1].entries[-1].frames == ()


def test_the_debug_servers_page_holds_every_rank(shared: Path) -> None:
    dumps, unread = read_dumps([shared / "traces/debug_server/fr_trace_json.html"])
    assert not unread
    assert [(d.rank, d.form, len(d.entries)) for d in dumps] == [(0, "page", 200), (1, "page", 200)]
    assert dumps[0].entries[-1].group.ranks == (0, 1)


@pytest.mark.parametrize(
    "name",
    [
        "rank_7",
        "nccl_trace_rank_7",
        "comm_lib_trace_rank_7",
        "_dump_7",
        "rank7.fr_trace_json.json",
        "rank_7.gz",
    ],
)
def test_the_rank_stands_in_the_name(tmp_path: Path, name: str) -> None:
    data = pickle.dumps(_job()[0].dump(), protocol=2)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    dumps, _ = read_dumps([path])
    assert (dumps[0].rank, dumps[0].rank_source) == (7, "file name")


def test_names_without_ranks_are_numbered_in_order(tmp_path: Path) -> None:
    paths = []
    for name, rank in zip("ab", _job(), strict=True):
        path = tmp_path / name
        path.write_bytes(pickle.dumps(rank.dump(), protocol=2))
        paths.append(path)
    assert [(d.rank, d.rank_source) for d in read_dumps(paths)[0]] == [(0, "order"), (1, "order")]


def test_what_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    good = write_pickles(tmp_path, _job())
    (tmp_path / "rank_2").write_bytes(b"")
    (tmp_path / "rank_3").write_bytes(b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.")
    (tmp_path / "rank_4").write_bytes(pickle.dumps([1, 2], protocol=2))
    (tmp_path / "rank_5").write_bytes(b'{"entries": [')
    (tmp_path / "rank_6").write_bytes(b'{"a":' + b"[" * 100_000)
    paths = [*good, *(tmp_path / f"rank_{r}" for r in (2, 3, 4, 5, 6, 7))]
    dumps, unread = read_dumps(paths)
    assert [d.rank for d in dumps] == [0, 1]
    problems = {u.rank: u.problem for u in unread}
    assert problems[2] == "empty"
    assert "names a global" in problems[3]
    assert problems[4] == "holds no flight recorder"
    assert problems[5] == "cut off"
    assert problems[6]
    assert "cannot be read" in problems[7]


def test_of_a_dump_that_was_cut_off_the_beginning_is_read(tmp_path: Path) -> None:
    data = pickle.dumps(world(1)[0].calls("0", 50).dump(), protocol=2)
    path = tmp_path / "rank_0"
    path.write_bytes(data[: len(data) * 3 // 4])
    dumps, unread = read_dumps([path])
    assert not unread
    assert dumps[0].cut_off
    assert 20 < len(dumps[0].entries) < 50
    assert dumps[0].status[0].enqueued == 50


OLD = {
    "version": "2.4",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "nccl_comm_state": {},
    "entries": [
        {
            "record_id": 0,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 1,
            "p2p_seq_id": 0,
            "op_id": 1,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 5,
            "input_sizes": ((4,),),
            "output_sizes": ((4,),),
            "state": "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": False,
            "is_p2p": False,
            "frames": [],
        }
    ],
}


def test_version_2_4_has_no_counts_threads_or_data_types(tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(OLD, protocol=2))
    dump = read_dumps([path])[0][0]
    assert (dump.version, dump.status, dump.entries[0].seq, dump.entries[0].pending) == (
        "2.4",
        {},
        1,
        True,
    )


@pytest.mark.parametrize(
    "wrong", [None, True, -1, 2**80, 1.5, "x" * 10_000, [], {}, [[[]]], [None, {}]]
)
def test_any_field_may_be_of_any_type(tmp_path: Path, wrong: Any) -> None:
    dump = _job()[0].dump()
    fields = {key: dict(dump["entries"][0]) | {key: wrong} for key in dump["entries"][0]}
    dump["entries"] = [*fields.values(), wrong]
    dump["pg_status"]["1"] = wrong
    dump["pg_config"]["1"] = wrong
    path = tmp_path / "rank_0"
    path.write_bytes(pickle.dumps(dump, protocol=2))
    read, _ = read_dumps([path])
    assert len(read[0].entries) >= len(fields)
    for key in ("pg_config", "pg_status", "entries", "version"):
        path.write_bytes(pickle.dumps(dump | {key: wrong}, protocol=2))
        read_dumps([path])


def test_a_list_that_is_named_a_thousand_times_is_read_once(tmp_path: Path) -> None:
    shape = [[1] * 8] * 256
    frames = [{"name": "f", "filename": "g", "line": 1}] * 40
    entry = _job()[0].dump()["entries"][0] | {
        "input_sizes": shape,
        "output_sizes": shape,
        "frames": frames,
    }
    laughs: Any = [1]
    for _ in range(40):
        laughs = [laughs, laughs]
    path = tmp_path / "rank_0"
    entries = [entry | {"record_id": i} for i in range(2_000)]
    path.write_bytes(
        pickle.dumps(
            {"entries": entries, "pg_config": laughs, "pg_status": {"0": laughs}}, protocol=2
        )
    )
    start = time.process_time()
    assert len(read_dumps([path])[0][0].entries) == 2_000
    assert time.process_time() - start < 5


def test_real_dumps_of_all_forms_are_read(shared: Path) -> None:
    paths = [
        *shared.glob("traces/nvrx_flight_recorder/*/_dump_*"),
        *shared.glob("traces/generated/hang_*/*/rank*"),
    ]
    wanted = [p for p in paths if not p.name.endswith(("traceback.txt", "ping.txt", "values.json"))]
    dumps, unread = read_dumps(wanted)
    assert [(u.rank, u.problem) for u in unread] == [(2, "empty")]
    assert {d.version for d in dumps} == {"2.9", "2.10"}
    assert all(d.left_out == 0 for d in dumps)
    assert json.dumps(sorted({d.form for d in dumps})) == '["json", "pickle"]'


def test_a_thousand_groups_of_a_hundred_thousand_ranks_take_seconds(tmp_path: Path) -> None:
    ranks = str(list(range(100_000)))
    dump = _job()[0].dump()
    entry = dump["entries"][0] | {"retired": False, "state": "scheduled"}
    dump["pg_config"] = {
        str(i): {"name": str(i), "desc": "d", "ranks": ranks} for i in range(1_000)
    }
    dump["entries"] = [
        entry | {"record_id": i, "process_group": (str(i % 1_000), "d"), "collective_seq_id": i}
        for i in range(2_000)
    ]
    for rank in range(3):
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    start = time.process_time()
    dumps, _ = read_dumps(sorted(tmp_path.iterdir()))
    hang_analysis(job_state(dumps))
    assert time.process_time() - start < 5
