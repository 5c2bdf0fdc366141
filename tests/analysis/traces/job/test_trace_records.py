"""Findings of a case are the same, byte for byte, whether its traces are read or were read
before."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.job import trace_versions
from faultline.analysis.traces.job.rank_reading import NO_MEMORY
from faultline.analysis.traces.job.trace_versions import (
    SUMMARIES,
    TRACES,
    VERSIONS_FILE,
    StoredRecord,
    record_bytes,
    record_name,
    record_of,
    version_of,
    versions_bytes,
)
from faultline.analysis.traces.job.training import training_findings
from faultline.bot.investigation.reading_traces import RankTask, read_into_record
from faultline.bot.store.case_store import Stored
from tests.analysis.traces.written_traces import case_of, document, empty_case, job, write_trace
from tests.trace_report.nsight_tool import PROCESS, small_export

DEMO = Path(__file__).resolve().parents[4] / "demo" / "cases"
LATE = {(2, step): 6_000.0 for step in range(8)}


def findings(case: Path) -> bytes:
    return json_bytes(training_findings(read_case(case)))


def record(case: Path, *, version: str | None = None) -> None:
    """Read every trace of the case into its record, as a worker does."""
    for path in sorted(p for p in (case / TRACES).rglob("*") if p.is_file()):
        name = path.relative_to(case / TRACES).as_posix()
        stored = Stored(path.stat().st_size, version or version_of(path))
        place = case / record_name(name)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(read_into_record(RankTask(path, name, stored, "run")))


def spoil(case: Path) -> None:
    """Other content in every trace, unseen: size and time stay."""
    for path in (case / TRACES).rglob("*"):
        if path.is_file():
            before = path.stat()
            path.write_bytes(b"x" * before.st_size)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def two_processes(path: Path) -> Path:
    """An export of two processes on two GPUs."""
    import sqlite3

    with sqlite3.connect(small_export(path)) as connection:
        other = PROCESS + (1 << 24)
        connection.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (300, 950, 1, 7, 6, {other}, 2)"
        )
        connection.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (110, 160, {other | 79}, 6, 1)"
        )
    connection.close()
    return path


def straggler(folder: Path) -> None:
    case_of(folder, job(late_us=LATE, late_in="aten::tanh"))


def ranks_by_order(folder: Path) -> None:
    """Neither the traces nor their names say a rank; one of them between the others is no trace."""
    for n, events in enumerate(job(late_us=LATE, late_in="aten::tanh")):
        write_trace(folder / TRACES / f"worker-{'abcd'[n]}.json", document(events, None))
    write_trace(folder / TRACES / "worker-aa.json", b'{"no": "trace"}')
    empty_case(folder)


def exports_and_traces(folder: Path) -> None:
    """Exports of several processes around a trace that does not say its rank."""
    case_of(folder, job(late_us=LATE)[:2])
    write_trace(folder / TRACES / "middle.json", document(job()[0], None))
    for name in ("a-node.sqlite", "z-node.sqlite"):
        two_processes(folder / TRACES / name)


def odd_files(folder: Path) -> None:
    """Empty, broken, packed wrongly, no traces at all, and a log."""
    case_of(folder, job(late_us=LATE))
    traces = folder / TRACES
    write_trace(traces / "rank9.json", b"")
    write_trace(traces / "other.json", b"{}")
    write_trace(traces / "cut.json.gz", b"")
    (traces / "corrupt.json.gz").write_bytes(b"\x1f\x8bnot gzip at all")
    (traces / "half.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [' * 9)[:-9])
    (traces / "broken.sqlite").write_bytes(b"SQLite format 3\0" + b"StringIds\xff" * 500)
    (traces / "nccl_trace_rank_0").write_bytes(b"\x80\x04N.")
    (traces / "stdout.log").write_text(
        "2026-01-01 step 1 loss nan\nRuntimeError: CUDA out of memory\n"
    )
    (traces / "report.nsys-rep").write_bytes(b"\0a report")
    (traces / "\u202eevil<!channel>.json").write_bytes(b"[]")


def demo_case(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.copytree(DEMO / name, folder, dirs_exist_ok=True) and None


WRITTEN = [straggler, ranks_by_order, exports_and_traces, odd_files]
CASES = [*WRITTEN, *(demo_case(n) for n in ("slow-rank", "healthy-training"))]


@pytest.mark.parametrize("write", CASES)
def test_records_give_the_same_findings_as_the_traces(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path)
    plain = findings(tmp_path)
    assert len(plain) > 100
    record(tmp_path)
    assert findings(tmp_path) == plain


def test_a_trace_with_a_record_is_not_read_again(tmp_path: Path) -> None:
    exports_and_traces(tmp_path)
    plain = findings(tmp_path)
    record(tmp_path)
    spoil(tmp_path)
    assert findings(tmp_path) == plain


@pytest.mark.parametrize("write", WRITTEN)
def test_a_copy_without_its_traces_gives_the_same(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path)
    plain = findings(tmp_path)
    record(tmp_path, version="of the store")
    names = {
        p: p.relative_to(tmp_path / TRACES).as_posix()
        for p in (tmp_path / TRACES).rglob("*")
        if p.is_file()
    }
    (tmp_path / SUMMARIES / VERSIONS_FILE).write_bytes(
        versions_bytes(dict.fromkeys(names.values(), "of the store"))
    )
    for path, name in names.items():
        kept = record_of((tmp_path / record_name(name)).read_bytes(), name)
        if kept is not None and kept.is_trace:
            path.unlink()
    assert findings(tmp_path) == plain


def test_a_trace_that_is_missing_from_a_copy_without_a_record_is_named(tmp_path: Path) -> None:
    straggler(tmp_path)
    record(tmp_path, version="1")
    name = "rank3.pt.trace.json.gz"
    versions = {p.name: "1" for p in (tmp_path / TRACES).iterdir()}
    (tmp_path / SUMMARIES / VERSIONS_FILE).write_bytes(
        versions_bytes(versions | {name: "2", "../alert.json": "1"})
    )
    (tmp_path / TRACES / name).unlink()
    said = [f for f in training_findings(read_case(tmp_path)) if f.kind == "trace_unreadable"]
    assert [f.subject for f in said] == [name]


def test_a_trace_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    straggler(tmp_path)
    record(tmp_path)
    for rank, events in enumerate(job()):
        write_trace(tmp_path / TRACES / f"rank{rank}.pt.trace.json.gz", document(events, rank))
    assert [f.kind for f in training_findings(read_case(tmp_path))] == ["training_healthy"]


def test_records_of_other_code_and_of_other_traces_stand_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straggler(tmp_path)
    plain = findings(tmp_path)
    record(tmp_path)
    first, second = (tmp_path / record_name(f"rank{n}.pt.trace.json.gz") for n in (0, 2))
    second.write_bytes(first.read_bytes())
    assert findings(tmp_path) == plain
    spoil(tmp_path)
    monkeypatch.setattr(trace_versions, "READER", "of another version")
    assert {f.kind for f in training_findings(read_case(tmp_path))} == {"trace_unreadable"}


@pytest.mark.parametrize(
    "forge",
    [
        lambda text: b"",
        lambda text: b"[" * 100_000,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(b'"summaries":[', b'"summaries":[{},'),
        lambda text: text.replace(
            b'"start":[', b'"start":[9223372036854775807,9223372036854775807,'
        ),
        lambda text: text.replace(b'"event":[', b'"event":[7,').replace(
            b'"number":[', b'"number":[1,2,3,'
        ),
    ],
)
def test_a_forged_record_changes_nothing_but_what_it_says(
    forge: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    straggler(tmp_path)
    plain = findings(tmp_path)
    record(tmp_path)
    for path in (tmp_path / SUMMARIES).iterdir():
        path.write_bytes(forge(path.read_bytes()))
    assert findings(tmp_path) == plain


def test_a_rank_that_was_given_up_is_named_with_its_reason(tmp_path: Path) -> None:
    straggler(tmp_path)
    record(tmp_path)
    name = "rank3.pt.trace.json.gz"
    path = tmp_path / TRACES / name
    given_up = StoredRecord(
        name,
        version_of(path),
        "profiler_trace",
        1,
        "run",
        problem="was not read within 300 s",
        passing=True,
    )
    (tmp_path / record_name(name)).write_bytes(record_bytes(given_up))
    finding, named = training_findings(read_case(tmp_path))
    assert (finding.subject, finding.details.written()["ranks"]) == ("rank 2", [0, 1, 2])
    assert (named.kind, named.sentence) == (
        "trace_unreadable",
        f"{name}: was not read within 300 s",
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), NO_MEMORY),
        (
            IndexError("list index out of range"),
            "cannot be analysed (IndexError: list index out of range)",
        ),
    ],
)
def test_a_rank_that_breaks_its_analysis_fails_alone_in_the_same_words(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faultline.analysis.traces.job import rank_reading

    summarise = rank_reading.summarise

    def breaks(trace: TraceColumns) -> object:
        if trace.rank == 3:
            raise error
        return summarise(trace)

    monkeypatch.setattr(rank_reading, "summarise", breaks)
    straggler(tmp_path)
    plain = findings(tmp_path)
    assert [f.sentence for f in training_findings(read_case(tmp_path))[1:]] == [
        f"rank3.pt.trace.json.gz: {said}"
    ]
    record(tmp_path)
    assert findings(tmp_path) == plain


def test_recorded_traces_of_real_jobs_give_the_same(shared: Path, tmp_path: Path) -> None:
    for folder in ("hta/df_index_resolver", "param/dlrm_kineto_8rank", "nsys_sqlite"):
        case = tmp_path / folder.replace("/", "-")
        shutil.copytree(shared / "traces" / folder, case / TRACES)
        # Three ranks of the eight: the others are written alike.
        for path in (case / TRACES).glob("rank-[3-7].json"):
            path.unlink()
        empty_case(case)
        plain = findings(case)
        record(case)
        assert findings(case) == plain
