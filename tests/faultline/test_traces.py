"""`faultline.traces`: a job's analyses as data frames."""

from __future__ import annotations

import gc
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import polars as pl
import pytest

import faultline.traces as ft
from faultline import EvidenceError, SettingsError
from faultline.trace_report.registry import ACROSS_RANKS, ANALYSES, BESIDE
from faultline.trace_report.tables import schema_of
from faultline.traces.job import EVENT_TABLES
from tests.analysis.traces.device_traces import kernel, launch
from tests.analysis.traces.written_traces import document, event, write_trace
from tests.trace_report.command import trace, write_job

TRACES = Path(__file__).parents[2] / "demo" / "cases" / "slow-rank" / "traces"
METHODS = [*ANALYSES, *ACROSS_RANKS, *BESIDE]


@pytest.fixture(scope="module")
def job() -> Iterator[ft.Job]:
    with ft.open(TRACES) as opened:
        yield opened


@pytest.fixture
def gpu_job(tmp_path: Path) -> ft.Job:
    """Two ranks whose times are known: a product, then a copy, in each of two steps of 1 ms."""
    for rank in range(2):
        events = []
        for step in range(2):
            at = 1_000.0 * step
            events += [
                event(f"ProfilerStep#{step}", at, 1_000, cat="user_annotation"),
                event("aten::mm", at, 100),
                launch(at + 10, 20, step + 1),
                kernel("gemm", at + 130 + rank, 300, stream=7, correlation=step + 1),
                kernel("ncclDevKernel_AllReduce", at + 330, 200, stream=20),
            ]
        write_trace(tmp_path / f"rank{rank}.pt.trace.json", document(events, rank, 2))
    return ft.open(tmp_path)


def test_a_job_is_diagnosed_and_its_tables_are_frames() -> None:
    job = ft.open(TRACES, analyses=["kernels", "operators"], processes=1)
    assert job.ranks == (0, 1, 2, 3)
    assert job.verdict == "something_wrong"
    assert job.diagnoses[0].ranks == (2,)
    assert job.unread == ()
    operators = job.table("operators")
    assert isinstance(operators, pl.DataFrame)
    assert set(operators["rank"].to_list()) == {0, 1, 2, 3}
    shown = [{k: v for k, v in row.items() if v is not None} for row in operators.to_dicts()]
    assert job.to_dict()["analyses"]["operators"] == shown


def test_the_document_is_the_one_that_the_command_prints(job: ft.Job) -> None:
    printed = json.loads(trace(TRACES, "--json").stdout)
    assert json.loads(json.dumps(job.to_dict())) == printed


def test_an_unknown_analysis_or_table_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="kernels"):
        ft.open(TRACES, analyses=["kernel"])
    job = ft.open(TRACES, analyses=["idle"], processes=1)
    with pytest.raises(SettingsError, match="idle"):
        job.table("kernels")
    with pytest.raises(SettingsError, match="there is no rank 9"):
        job.events(9)
    with pytest.raises(SettingsError, match="no analysis is called 'kernel'"):
        job.make("kernel")


def test_files_that_hold_no_trace_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(EvidenceError):
        ft.open(tmp_path)
    with pytest.raises(EvidenceError, match="no such file"):
        ft.open(tmp_path / "missing.json")
    (tmp_path / "trace.json").write_text('{"no": "events"}')
    for keep_bytes in (0, ft.KEEP_BYTES):
        job = ft.open(tmp_path / "trace.json", keep_bytes=keep_bytes)
        with pytest.raises(EvidenceError, match=r"trace\.json"):
            job.kernels()


def test_opening_parses_nothing_and_every_trace_is_parsed_once(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2)
    with mock.patch("faultline.traces.ranks.traces_in", wraps=ft.ranks.traces_in) as read:
        job = ft.open(tmp_path)
        assert "2 traces" in repr(job)
        assert read.call_count == 0
        job.kernels()
        job.temporal()
        job.events()
        job.diagnose()
        assert read.call_count == 2


def test_an_analysis_is_made_when_asked_for_and_once(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2)
    job = ft.open(tmp_path)
    made = "faultline.traces.ranks.all_rows_of"
    with mock.patch(made, wraps=ft.ranks.all_rows_of) as counted:
        assert job.idle() is job.idle()
        job.sql("select * from idle")
    assert [call.args[0] for call in counted.call_args_list] == ["idle", "idle"]


def test_a_job_too_large_to_keep_gives_the_same_frames(job: ft.Job) -> None:
    large = ft.open(TRACES, keep_bytes=0, processes=1)
    assert "read again for each question" in large._repr_html_()
    large.make("kernels", "temporal")
    assert large.ranks == job.ranks
    for name in ("kernels", "temporal", "blame"):
        assert large.table(name).equals(job.table(name)), name
    assert large.events(2).equals(job.events(2))
    assert "critical" in job._repr_html_()
    with pytest.raises(SettingsError, match="give a rank"):
        large.events()


@pytest.mark.parametrize("name", METHODS)
def test_each_analysis_is_a_method_that_names_its_columns(job: ft.Job, name: str) -> None:
    method = getattr(ft.Job, name)
    own = list(schema_of(name))
    if name not in ("collectives", "slow_steps", "idle_together", "memory_by_category"):
        own = list(dict.fromkeys(["rank", *own]))
    assert set(own) <= set(re.findall(r"\w+", inspect.getdoc(method) or ""))
    frame = method(job)
    assert set(frame.columns) == set(own)
    assert name in BESIDE or frame.equals(job.table(name))


def test_every_method_that_gives_a_frame_says_its_columns() -> None:
    for name, method in inspect.getmembers(ft.Job, inspect.isfunction):
        if not name.startswith("_") and method.__annotations__.get("return") == "pl.DataFrame":
            assert name in ("table", "sql") or "Columns: " in (inspect.getdoc(method) or ""), name
    for name in (*METHODS, "diagnoses", "differences"):
        assert schema_of(name), name


def test_a_trace_without_a_device_has_the_columns_of_all_frames(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.pt.trace.json", document([event("aten::mm", 0, 5)], 0, 1))
    job = ft.open(tmp_path)
    assert job.kernels().is_empty()
    assert job.kernels().filter(pl.col("total_ns") > 0).columns == job.kernels().columns
    for name in EVENT_TABLES.values():
        assert getattr(job, name)().width > 2, name


def test_events_are_a_frame_with_times_in_their_names(gpu_job: ft.Job) -> None:
    events = gpu_job.events()
    gemm = events.filter(name="gemm", rank=1)
    assert gemm["start_us"].to_list() == [131.0, 1131.0]
    assert gemm["duration_us"].to_list() == [300.0, 300.0]
    assert gemm["kind"].to_list() == ["computation"] * 2
    assert gemm["stream"].to_list() == [7, 7]
    assert gemm["step"].to_list() == [0, 1]
    assert events.filter(name="aten::mm")["stream"].null_count() == 4
    assert gpu_job.events(1).height * 2 == events.height


def test_each_kernel_has_its_launch_and_its_delay(gpu_job: ft.Job) -> None:
    work = gpu_job.device_work(0).filter(name="gemm")
    assert work["delay_ns"].to_list() == [100_000, 100_000]
    assert work["launch_duration_ns"].to_list() == [20_000, 20_000]
    unlaunched = gpu_job.device_work(0).filter(pl.col("launch").is_null())
    assert set(unlaunched["name"]) == {"ncclDevKernel_AllReduce"}
    assert unlaunched["delay_ns"].null_count() == 2
    queue = gpu_job.launch_queue_series(0)
    assert queue["queue_length"].to_list() == [1, 0, 1, 0]


def test_overlap_is_of_the_communication(gpu_job: ft.Job) -> None:
    whole = gpu_job.overlap().filter(part="all", rank=0).row(0, named=True)
    assert (whole["communication_ns"], whole["overlapped_ns"]) == (400_000, 200_000)
    assert whole["overlap_percent"] == 50.0


def test_sql_takes_events_and_analyses_and_makes_no_others(gpu_job: ft.Job) -> None:
    query = "select name, count(*) as n from events where stream = 7 group by name"
    assert gpu_job.sql(query).rows() == [("gemm", 4)]
    joined = gpu_job.sql(
        "select k.name, s.duration_ns from kernels k join steps s on k.rank = s.rank "
        "where k.kind = 'computation' and s.step = 1"
    )
    assert joined.rows() == [("gemm", 1_000_000)] * 2
    assert "idle" not in gpu_job._ranks._rows


def test_two_jobs_are_compared_name_by_name(gpu_job: ft.Job, tmp_path: Path) -> None:
    other = ft.open(write_job(tmp_path / "other", ranks=1))
    diff = gpu_job.diff(other)
    assert diff.filter(name="gemm", on_device=True)["control_calls"].to_list() == [4]
    assert "step time" in gpu_job.regressions(other)["name"].to_list()


def test_an_analysis_that_breaks_on_a_rank_leaves_the_others(gpu_job: ft.Job) -> None:
    whole = ft.ranks.all_rows_of

    def broken(name: str, trace: ft.ranks.TraceColumns) -> ft.ranks.Rows:
        if trace.rank == 1:
            raise ValueError("odd trace")
        return whole(name, trace)

    with mock.patch("faultline.traces.ranks.all_rows_of", broken):
        assert set(gpu_job.kernels()["rank"]) == {0}
    assert gpu_job.failed == ((1, "kernels", "ValueError: odd trace"),)


def test_what_was_unpacked_goes_with_the_job(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.write(next(iter(sorted(TRACES.iterdir()))), "rank0.json.gz")
    job = ft.open(tmp_path / "run.zip")
    folder = job._ranks.files.files[0].path.parent
    assert folder.exists()
    assert job.ranks == (0,)
    del job
    gc.collect()
    assert not folder.exists()


def test_names_out_of_traces_are_escaped_in_notebooks(tmp_path: Path) -> None:
    write_job(tmp_path, {(1, step): 8_000.0 for step in range(8)}, ranks=2)
    job = ft.open(tmp_path)
    said = mock.Mock(severity="critical", statement="<script>", fix="<b>")
    report = mock.Mock(facts=["<i>"], diagnoses=[said], nothing_wrong="")
    with mock.patch.object(type(job._ranks), "report", report):
        shown = job._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "&lt;i&gt;" in shown


@pytest.mark.parametrize(
    "name", ["temporal", "steps", "overlap", "idle", "kernels", "critical_path", "launch_queue"]
)
def test_charts_are_drawn_from_the_frames(gpu_job: ft.Job, name: str) -> None:
    chart = getattr(gpu_job.plot, name)().to_dict()
    (data,) = chart["datasets"].values()
    assert data, name


def test_the_traces_are_written_again_with_what_was_found(gpu_job: ft.Job, tmp_path: Path) -> None:
    assert gpu_job.write_overlay(tmp_path / "path.json", rank=0).added > 0
    assert gpu_job.write_counters(tmp_path / "counters.json", rank=1).added > 0
    with pytest.raises(SettingsError, match="say which one"):
        gpu_job.write_overlay(tmp_path / "path.json")
