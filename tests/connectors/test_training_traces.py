"""Trace files taken from real directories and from a real S3 server (moto over HTTP)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.analysis.vocabulary import JobIdentity
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.traces.connector import TrainingTracesConnector
from faultline.connectors.vendors.traces.places import s3_client
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.s3 import open_client


def put(path: Path, content: bytes = b'{"traceEvents": []}', minutes: float = -5) -> None:
    """A file written this many minutes from the alert."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    at = (ALERT_AT + timedelta(minutes=minutes)).timestamp()
    os.utime(path, (at, at))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two captures of two ranks of the job llm-1, and another job's."""
    root = tmp_path / "runs"
    for iteration, minutes in ((10, -300), (20, -10)):
        for rank in (0, 1):
            put(
                root / f"llm-1/profiling/iteration_{iteration}/rank{rank}_trace.json",
                b"%d" % iteration,
                minutes,
            )
    put(root / "llm-10/rank0_trace.json", b"another job")
    return root


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Where trace files are to be written."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def bucket(s3: str) -> Iterator[str]:
    """The S3 server with a bucket `runs` that holds traces of llm-1 and of llm-10; objects are
    stamped now."""
    stamp = int((ALERT_AT - timedelta(minutes=5)).timestamp() * 1000)
    with open_client(s3) as client:
        client.create_bucket(Bucket="runs")
        for rank in range(3):
            client.put_object(
                Bucket="runs",
                Key=f"train/llm-1/vm_rank{rank}.{stamp}.pt.trace.json",
                Body=b"r%d" % rank,
            )
        client.put_object(
            Bucket="runs", Key=f"train/llm-1/../../vm_rank3.{stamp}.pt.trace.json", Body=b"r3"
        )
        client.put_object(Bucket="runs", Key="train/llm-10/rank0_trace.json", Body=b"another job")
        client.put_object(Bucket="runs", Key="train/llm-1/checkpoint.bin", Body=b"weights")
        yield s3
        for entry in client.list_objects_v2(Bucket="runs")["Contents"]:
            client.delete_object(Bucket="runs", Key=entry["Key"])
        client.delete_bucket(Bucket="runs")


def names(folder: Path) -> list[str]:
    """Files below a folder."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_newest_capture_of_each_rank_of_the_job_is_copied(runs: Path, files: Path) -> None:
    connector = TrainingTracesConnector([f"{runs}/{{job}}"])
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == [f"profiling/iteration_20/rank{r}_trace.json" for r in (0, 1)]
    assert [i.file for i in collected.items] == names(files)
    assert [i.bytes for i in collected.items] == [2, 2]
    assert collected.items[0].details["what"] == "profile of rank 0"
    assert collected.items[0].details["not taken"] == "2 other captures of the same ranks"
    assert collected.missing == ()


def test_without_a_training_job_nothing_is_taken_and_nothing_is_missing(
    runs: Path, files: Path
) -> None:
    collected = asyncio.run(TrainingTracesConnector([str(runs)]).collect(request_for(files)))
    assert (collected.items, collected.missing, names(files)) == ((), (), [])


@pytest.mark.parametrize("job", ["../llm-1", "..", "llm-1/../llm-10"])
def test_a_job_name_that_leads_elsewhere_is_refused(runs: Path, files: Path, job: str) -> None:
    connector = TrainingTracesConnector([f"{runs}/{{job}}"])
    collected = asyncio.run(collect_from(connector, request_for(files, job=job)))
    assert "not usable in a path" in collected.missing[0].reason
    assert names(files) == []


def test_links_out_of_the_folder_and_pipes_are_left_alone(
    runs: Path, files: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.json"
    put(secret, b"secret")
    job = runs / "llm-1"
    (job / "rank7_trace.json").symlink_to(secret)
    (job / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(job / "rank8_trace.json")
    (job / "rank9_trace.json").symlink_to(job / "profiling/iteration_20/rank0_trace.json")
    connector = TrainingTracesConnector([f"{runs}/{{job}}"])
    asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == [
        *(f"profiling/iteration_20/rank{r}_trace.json" for r in (0, 1)),
        "rank9_trace.json",
    ]


def test_limits_of_size_and_number_are_kept_and_said(runs: Path, files: Path) -> None:
    put(runs / "llm-1/rank2_trace.json", b"x" * 5000)
    connector = TrainingTracesConnector([f"{runs}/{{job}}"], max_file_bytes=4000, max_files=1)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == ["profiling/iteration_20/rank0_trace.json"]
    assert [m.reason for m in collected.missing] == [
        "left out: 1 traces larger than 4,000 bytes",
        "left out: 1 traces beyond the first 1",
    ]


def test_the_limit_of_all_bytes_leaves_whole_files_and_names_the_others(
    runs: Path, files: Path
) -> None:
    limits = Limits(max_bytes=3, concurrency=1)
    connector = TrainingTracesConnector([f"{runs}/{{job}}"], limits=limits)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == ["profiling/iteration_20/rank0_trace.json"]
    assert "size of trace files limit of 3 bytes reached" in collected.missing[0].reason


def test_a_file_that_grows_past_the_budget_leaves_no_half_file(runs: Path, files: Path) -> None:
    class Growing(TrainingTracesConnector):
        def _choose(self, *given: object) -> object:  # type: ignore[override]
            choice = super()._choose(*given)  # type: ignore[arg-type]
            put(runs / "llm-1/profiling/iteration_20/rank0_trace.json", b"x" * 500)
            return choice

    connector = Growing([f"{runs}/{{job}}"], limits=Limits(max_bytes=100, concurrency=1))
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert "profiling/iteration_20/rank0_trace.json" not in names(files)
    assert any("limit of 100 bytes" in m.reason for m in collected.missing)


def test_two_locations_do_not_overwrite_each_other(runs: Path, files: Path) -> None:
    connector = TrainingTracesConnector(
        [f"{runs}/{{job}}", f"{runs}/{{job}}/profiling", f"{runs}/none/{{job}}"]
    )
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert len(names(files)) == 4
    assert [m.reason.rsplit(": ")[-1] for m in collected.missing] == [
        "no such directory, or no permission to read it"
    ]


def test_s3_objects_below_the_jobs_prefix_are_copied(bucket: str, files: Path) -> None:
    connector = TrainingTracesConnector(["s3://runs/train/{job}"], bucket)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert {p.read_bytes() for p in files.rglob("*") if p.is_file()} == {b"r0", b"r1", b"r2", b"r3"}
    assert all(p.resolve().is_relative_to(files) for p in files.rglob("*"))
    assert {i.link for i in collected.items if i.link and "rank0" in i.link} == {
        collected.items[0].link
    }
    assert (collected.items[0].link or "").startswith("s3://runs/train/llm-1/vm_rank0.")
    assert collected.missing == ()


def listing(*keys: str, after: str = "") -> Reply:
    """A page of S3's ListObjectsV2 answer; `after` is the token of the next page."""
    entries = "".join(
        f"<Contents><Key>{k}</Key><Size>4</Size><LastModified>2026-03-02T11:55:00.000Z</"
        f"LastModified></Contents>"
        for k in keys
    )
    more = (
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{after}</NextContinuationToken>"
        if after
        else ""
    )
    body = (
        f"<ListBucketResult "
        f'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{entries}{more}</ListBucketResult>'
    )
    return Reply(body.encode(), headers={"Content-Type": "application/xml"})


def test_s3_listings_of_many_pages_are_read_to_the_end(
    server: LocalServer, aws_credentials: None, files: Path
) -> None:
    server.on(
        "/runs",
        listing("llm-1/a.txt", "llm-1/rank_0", after="2"),
        listing("llm-1/rank_1", after="3"),
        listing(),
    )
    server.on("/runs/llm-1/rank_0", Reply(b"four"))
    server.on("/runs/llm-1/rank_1", Reply(b"four"))
    connector = TrainingTracesConnector(["s3://runs/{job}"], server.url)
    asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == ["rank_0", "rank_1"]
    tokens = [a.query.get("continuation-token") for a in server.asked if a.path == "/runs"]
    assert tokens == [None, ["2"], ["3"]]


def test_a_bucket_that_is_not_there_is_a_gap(bucket: str, files: Path) -> None:
    connector = TrainingTracesConnector(["s3://elsewhere/{job}"], bucket)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert [m.reason for m in collected.missing] == ["traces list: not found (HTTP 404)"]


def test_s3_that_refuses_or_breaks_off_is_a_gap(
    server: LocalServer, aws_credentials: None, files: Path
) -> None:
    server.on("/runs", Reply(b"<Error><Code>AccessDenied</Code></Error>", status=403))
    connector = TrainingTracesConnector(["s3://runs/{job}"], server.url)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert [m.reason for m in collected.missing] == [
        "traces list: not permitted with these credentials (HTTP 403)"
    ]


def test_a_download_cut_short_leaves_no_half_file(
    server: LocalServer, aws_credentials: None, files: Path
) -> None:
    server.on("/runs", listing("llm-1/rank_0"))
    server.on("/runs/llm-1/rank_0", Reply(b"four", claims=9))
    connector = TrainingTracesConnector(["s3://runs/{job}"], server.url)
    collected = asyncio.run(connector.collect(request_for(files, job="llm-1")))
    assert names(files) == []
    assert "no answer" in collected.missing[0].reason
    assert server.methods == {"GET"}


def test_a_write_to_s3_is_refused_before_anything_is_sent(
    server: LocalServer, aws_credentials: None
) -> None:
    client = s3_client(server.url)
    for write in (
        lambda: client.put_object(Bucket="runs", Key="x", Body=b""),
        lambda: client.delete_object(Bucket="runs", Key="x"),
        lambda: client.create_multipart_upload(Bucket="runs", Key="x"),
        lambda: client.select_object_content(
            Bucket="runs",
            Key="x",
            Expression="",
            ExpressionType="SQL",
            InputSerialization={},
            OutputSerialization={},
        ),
    ):
        with pytest.raises(ConnectorError, match="only lists and reads"):
            write()
    client.close()
    assert server.asked == []


def test_a_location_that_is_no_bucket_address_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"traces\.locations"):
        TrainingTracesConnector(["s3:///prefix"])


def test_check_lists_each_location_once(runs: Path, bucket: str) -> None:
    good = asyncio.run(
        TrainingTracesConnector([f"{runs}/llm-{{job}}/x", "s3://runs/train/{job}"], bucket).check()
    )
    assert good.ok
    assert good.line.count("can be listed") == 2
    bad = asyncio.run(
        TrainingTracesConnector(["/nowhere/{job}", "s3://elsewhere/{job}"], bucket).check()
    )
    assert not bad.ok
    assert "no such directory" in bad.line
    assert "HTTP 404" in bad.line


def test_dumps_and_logs_of_the_scopes_job_are_taken_from_their_own_places(
    tmp_path: Path, files: Path
) -> None:
    put(tmp_path / "dumps/mydump2", b"2")
    put(tmp_path / "logs/trainer.3", b"x" * 10)
    training = JobIdentity(
        name="llm-1",
        dumps=(str(tmp_path / "dumps"),),
        logs=(str(tmp_path / "logs"),),
        unknown=("/scratch/{run}: the alert does not say run",),
    )
    request = request_for(files, job="llm-1")
    request = replace(request, scope=request.scope.model_copy(update={"training": training}))
    collected = asyncio.run(collect_from(TrainingTracesConnector(()), request))
    assert [(i.details["what"], i.bytes) for i in collected.items] == [
        ("flight_recorder of rank 2", 1),
        ("log of file trainer.3", 10),
    ]
    assert [(m.query, m.reason) for m in collected.missing] == [
        ("/scratch/{run}", "the alert does not say run")
    ]


@pytest.mark.parametrize("in_s3", [False, True])
def test_of_a_long_log_the_end_is_taken(
    in_s3: bool, tmp_path: Path, files: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.traces.connector.LOG_BYTES", 100)
    content = b"begin" + b"x" * 1000 + b"the end"
    put(tmp_path / "logs/train.log", content)
    put(tmp_path / "logs/comm_lib_trace_rank_1", b"")
    location, endpoint = str(tmp_path / "logs"), None
    if in_s3:
        location, endpoint = "s3://runs/logs", bucket
        with open_client(bucket) as client:
            client.put_object(Bucket="runs", Key="logs/train.log", Body=content)
            client.put_object(Bucket="runs", Key="logs/comm_lib_trace_rank_1", Body=b"")
    request = request_for(files, job="llm-1")
    collected = asyncio.run(collect_from(TrainingTracesConnector((location,), endpoint), request))
    log = next(i for i in collected.items if i.file == "train.log")
    assert (files / "train.log").read_bytes() == content[-100:]
    assert log.cut == "its last 100 bytes of 1,012"
    assert (files / "comm_lib_trace_rank_1").read_bytes() == b""
    assert collected.missing == ()
