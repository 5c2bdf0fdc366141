"""Files of a capture that appear in an S3 bucket (a real S3 server on loopback) or a directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.outputs import (
    Collector,
    DirectoryOutput,
    ExpectedFile,
    OutputPlace,
    output_place,
    rank_in,
)
from tests.s3 import open_client


def collected(
    place: OutputPlace, folder: Path, *names: str, max_file_bytes: int = 1000
) -> Collector:
    collector = Collector(place, "faultline-1", folder, max_file_bytes)
    expected = [ExpectedFile(name, "node", pid) for pid, name in enumerate(names)]
    asyncio.run(collector.collect(expected, 2.5, lambda _: None))
    return collector


def test_objects_of_a_bucket_are_collected(tmp_path: Path, s3: str) -> None:
    with open_client(s3) as client:
        client.create_bucket(Bucket="captures")
        client.put_object(
            Bucket="captures", Key="llm/faultline-1-host0_0.json", Body=b'{"traceEvents": []}'
        )
    place = output_place("s3://captures/llm/", s3)
    done = collected(place, tmp_path, "faultline-1-host0_0.json", "faultline-1-host0_1.json")
    assert [(file.pid, file.path.read_bytes()) for file in done.files] == [
        (0, b'{"traceEvents": []}')
    ]
    assert "no faultline-1-host0_1.json" in done.gaps[0].why


def test_a_bucket_that_is_not_there_is_one_line(s3: str) -> None:
    with pytest.raises(ConnectorError, match=r"s3://absent: cannot be listed \(NoSuchBucket\)"):
        output_place("s3://absent/llm", s3).sizes("x")


def test_a_file_over_the_limit_is_a_gap_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "faultline-1_0.json").write_bytes(b"x" * 2000)
    (tmp_path / "out").mkdir()
    done = collected(DirectoryOutput(tmp_path), tmp_path / "out", "faultline-1_0.json")
    assert done.files == []
    assert "is larger than the settings" in done.gaps[0].why
    assert list((tmp_path / "out").iterdir()) == []


def test_storage_that_vanishes_is_said(tmp_path: Path) -> None:
    done = collected(DirectoryOutput(tmp_path / "absent"), tmp_path, "faultline-1_0.json")
    assert "cannot be read (No such file or directory)" in done.gaps[0].why


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (b'{"distributedInfo": {"backend": "nccl", "rank": 12, "world_size": 16}}', 12),
        (b'{"traceEvents": [' + b" " * 200_000 + b'], "distributedInfo": {"rank": 3}}', 3),
        (b'{"traceEvents": []}', None),
        (b"", None),
    ],
)
def test_a_rank_is_read_from_the_ends_of_a_trace(
    tmp_path: Path, text: bytes, rank: int | None
) -> None:
    (tmp_path / "t.json").write_bytes(text)
    assert rank_in(tmp_path / "t.json") == rank
