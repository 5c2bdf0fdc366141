"""What a trace file's name tells, and which captures belong to an incident."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.traces.connector import safe_name, usable_job
from faultline.connectors.vendors.traces.files import TraceFile, choose, read_name

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
INCIDENT = Window(start=AT - timedelta(minutes=30), end=AT)


def file(name: str, minutes: float = -5, size: int = 100) -> TraceFile:
    """A file written this many minutes from the alert."""
    return TraceFile(name, size, AT + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("name", "kind", "who"),
    [
        ("vm_rank3.1772452500000000000.pt.trace.json.gz", "profile", "rank 3"),
        ("node1_4711.1772452500000.pt.trace.json", "profile", "worker node1_4711"),
        ("iteration_40/rank12_trace.json.gz", "profile", "rank 12"),
        ("odtrace_3941.json.gz", "profile", "process 3941"),
        ("t_3941.pt.trace.json.gz", "profile", "worker t_3941"),
        ("rank-7.json", "profile", "rank 7"),
        ("comm_lib_trace_rank_3", "flight_recorder", "rank 3"),
        ("fr/rank_2", "flight_recorder", "rank 2"),
        ("gpu_error/_dump_15", "flight_recorder", "rank 15"),
        ("http/rank1.fr_trace_json.json", "flight_recorder", "rank 1"),
        ("memory_snapshot/step_000000000040/000003_step_40.pickle", "memory_snapshot", "rank 3"),
        ("memory_snapshot_4711.pickle", "memory_snapshot", "process 4711"),
        ("report.sqlite", "nsight", "file report.sqlite"),
        ("logs/a/aggregator/telemetry", "telemetry", "file logs/a/aggregator/telemetry"),
        ("wandb/run-iay.wandb", "telemetry", "file wandb/run-iay.wandb"),
        ("logs/final_summary.json", "telemetry", "file logs/final_summary.json"),
        ("metrics_rank0.jsonl", "telemetry", "rank 0, metrics_rank0.jsonl"),
        ("stdout_rank2.txt", "log", "rank 2, stdout_rank2.txt"),
        ("elastic/attempt_0/3/stderr.log", "log", "rank 3, stderr.log"),
        ("http/rank1_stacks.txt", "stacks", "rank 1"),
    ],
)
def test_a_name_tells_kind_and_rank(name: str, kind: str, who: str) -> None:
    capture = read_name(file(name))
    assert capture is not None
    assert (capture.kind, capture.who) == (kind, who)


@pytest.mark.parametrize(
    "name",
    [
        "model.pt",
        "trace.json.tmp",
        "core",
        "label.json",
        "rank0/label.json",
        "config.json",
        "tokenizer.json",
        "rank1.wait_counter_values.json",
    ],
)
def test_other_files_are_no_traces(name: str) -> None:
    assert read_name(file(name)) is None


@pytest.mark.parametrize(
    "digits", ["1772452500", "1772452500000", "1772452500000000", "1772452500000000000"]
)
def test_the_time_in_a_name_is_read_in_any_unit(digits: str) -> None:
    capture = read_name(file(f"h_1.{digits}.pt.trace.json", minutes=600))
    assert capture is not None
    assert capture.taken == datetime.fromtimestamp(1772452500, UTC)


def test_each_rank_brings_its_newest_capture_in_the_window() -> None:
    files = [
        file("iteration_10/rank0_trace.json", -200),
        file("iteration_20/rank0_trace.json", -20),
        file("iteration_30/rank0_trace.json", -5),
        file("iteration_99/rank0_trace.json", +300),
        file("iteration_20/rank1_trace.json", -20),
        file("iteration_30/rank1_trace.json", -5, size=10_000),
    ]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=10)
    assert [c.file.name for c in choice.captures] == [
        "iteration_30/rank0_trace.json",
        "iteration_20/rank1_trace.json",
    ]
    assert choice.left_out == ("1 traces larger than 1,000 bytes",)
    assert choice.not_needed == ("3 other captures of the same ranks",)
    assert choice.outside is None


def test_a_capture_outside_the_window_is_taken_only_for_want_of_one_and_it_is_said() -> None:
    files = [file("rank0_trace.json", -24 * 60), file("old/rank0_trace.json", -6 * 60)]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=10)
    assert [c.file.name for c in choice.captures] == ["old/rank0_trace.json"]
    assert (
        choice.outside
        == "no capture lies in the incident window; the nearest was taken 5.5 h before it"
    )


def test_a_profile_and_a_flight_recorder_dump_of_one_rank_are_both_taken_in_rank_order() -> None:
    files = [file(n) for n in ("rank10_trace.json", "rank2_trace.json", "rank_2", "rank_10")]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=3)
    assert [c.file.name for c in choice.captures] == [
        "rank2_trace.json",
        "rank_2",
        "rank10_trace.json",
    ]
    assert choice.left_out == ("1 traces beyond the first 3",)


def test_of_two_dumps_of_a_rank_the_one_with_stack_frames_is_taken() -> None:
    files = [file("fr/rank_0", -9), file("http/rank0.fr_trace_json.json", -5)]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=3)
    assert [c.file.name for c in choice.captures] == ["fr/rank_0"]


def test_an_empty_dump_is_taken_because_it_tells_of_its_rank_and_an_empty_profile_is_not() -> None:
    files = [file("rank_0", size=0), file("rank_1"), file("rank1_trace.json", size=0)]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=3)
    assert [c.file.name for c in choice.captures] == ["rank_0", "rank_1"]
    assert choice.left_out == ("1 empty traces",)


def test_a_dump_from_an_earlier_incident_is_not_mixed_with_those_of_this_one() -> None:
    files = [file("rank_0"), file("rank_1"), file("rank_2", -26 * 60)]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=9)
    assert [c.file.name for c in choice.captures] == ["rank_0", "rank_1"]
    assert choice.not_needed == ("1 dumps of ranks that left none in the incident",)
    assert choice.outside is None


def test_in_a_place_of_dumps_any_name_that_ends_with_a_number_is_one() -> None:
    files = [file("nccl_dump0"), file("nccl_dump11.pickle"), file("README"), file("fr.3.json")]
    choice = choose(files, INCIDENT, max_file_bytes=1000, max_files=9, place="dumps")
    assert [(c.kind, c.who) for c in choice.captures] == [
        ("flight_recorder", f"rank {n}") for n in (0, 3, 11)
    ]
    assert choose(files[:1], INCIDENT, max_file_bytes=1000, max_files=9).captures == ()


def test_in_a_place_of_logs_everything_else_is_a_log_and_each_file_of_a_rank_is_taken() -> None:
    names = [
        "attempt_0/1/stderr.log",
        "attempt_0/1/stdout.log",
        "slurm-4711.out",
        "trainer-7",
        "rank_3",
    ]
    choice = choose(
        [file(n) for n in names], INCIDENT, max_file_bytes=1000, max_files=9, place="logs"
    )
    assert {(c.kind, c.who) for c in choice.captures} == {
        ("log", "rank 1, stderr.log"),
        ("log", "rank 1, stdout.log"),
        ("log", "file slurm-4711.out"),
        ("log", "file trainer-7"),
        ("flight_recorder", "rank 3"),
    }


def test_a_long_log_is_not_left_out() -> None:
    choice = choose([file("stdout.log", size=10_000)], INCIDENT, max_file_bytes=1000, max_files=9)
    assert [c.kind for c in choice.captures] == ["log"]
    assert choice.left_out == ()


@pytest.mark.parametrize(
    "job", ["../etc", "a/b", "..", ".", "", "a b", "x" * 129, "a\n", "$(id)", "a\x00"]
)
def test_a_job_name_that_could_leave_the_folder_is_refused(job: str) -> None:
    assert not usable_job(job)


@given(st.text(max_size=300))
def test_a_safe_name_never_leaves_its_folder(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert not safe.startswith("/")
    assert all(part not in ("", ".", "..") and len(part) <= 200 for part in safe.split("/"))
    assert "\x00" not in safe
