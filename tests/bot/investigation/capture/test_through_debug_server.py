"""Captures through the debug servers of a job: stand-ins on loopback, and a real job where PyTorch
is at hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from faultline.bot.investigation.capture.debug_server import DebugServerClient
from faultline.bot.investigation.capture.outputs import KEEP_FREE_BYTES
from faultline.loopback.bot_process import free_port
from tests.bot.investigation.capture.recording_job import hosts, job_settings, recording
from tests.bot.investigation.capture.test_debug_server import (
    _discovered,
    _job,
    _server,
    _url,
)
from tests.bot.investigation.capture.test_run import captured, gaps, record
from tests.trace_report.command import trace

ALLOWED = ["127.0.0.1", socket.gethostname()]

RANK = {
    "/handler/dump_traceback": (200, b"Stack of rank"),
    "/handler/torch_profile": (200, b'{"traceEvents": []}'),
    "/handler/fr_trace_json": (200, b'{"entries": []}'),
}


def page(*servers: str) -> dict[str, tuple[int, bytes]]:
    lines = [
        f"<h2>Rank {rank}: {server}/handler/wait_counter_values?</h2>"
        for rank, server in enumerate(servers)
    ]
    return {"/wait_counters": (200, "\n".join(lines).encode())}


def test_every_rank_is_asked_for_stacks_profile_and_flight_recorder(tmp_path: Path) -> None:
    with _server(RANK) as zero, _server(RANK) as one, _server(page(_url(zero), _url(one))) as front:
        settings = job_settings(tmp_path, [], debug_server=_url(front), ranks=2)
        result = captured(settings, tmp_path / "out", seconds=0.25)
        asked = zero.asked  # type: ignore[attr-defined]
    assert (result.status, result.gaps) == ("recorded", ())
    assert asked == [
        "POST /handler/dump_traceback",
        "POST /handler/torch_profile?duration=0.25",
        "POST /handler/fr_trace_json",
    ]
    assert sorted((f.rank, f.kind, f.path.name) for f in result.files) == [
        (0, "flight_recorder", "rank0.fr_trace.json"),
        (0, "stacks", "rank0_stacks.txt"),
        (0, "trace", "rank0_trace.json"),
        (1, "flight_recorder", "rank1.fr_trace.json"),
        (1, "stacks", "rank1_stacks.txt"),
        (1, "trace", "rank1_trace.json"),
    ]


def test_a_rank_that_cannot_answer_is_a_gap_and_one_that_is_absent_too(tmp_path: Path) -> None:
    broken = RANK | {"/handler/torch_profile": (500, b"")}
    with _server(broken) as zero, _server(page(_url(zero), "http://169.254.169.254:80")) as front:
        result = captured(
            job_settings(tmp_path, [], debug_server=_url(front), ranks=2), tmp_path / "out"
        )
    assert result.status == "partial"
    assert [file.kind for file in result.files] == ["stacks", "flight_recorder"]
    assert "torch_profile at 127.0.0.1" in gaps(result)
    assert "http://169.254.169.254:80: debug_hosts and debug_ports do not allow it" in gaps(result)
    assert "rank 1: has no debug server that may be spoken to" in gaps(result)


def test_files_that_the_disk_has_no_room_for_are_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearly_full = SimpleNamespace(free=KEEP_FREE_BYTES + 20)
    monkeypatch.setattr(
        "faultline.bot.investigation.capture.debug_server.shutil.disk_usage",
        lambda _: nearly_full,
    )
    with _server(RANK) as zero, _server(page(_url(zero))) as front:
        result = captured(
            job_settings(tmp_path, [], debug_server=_url(front), ranks=1), tmp_path / "out"
        )
    assert [file.kind for file in result.files] == ["stacks"]
    assert gaps(result).count("longer than 10 bytes") == 2


def test_without_debug_servers_the_daemons_are_asked(tmp_path: Path) -> None:
    with hosts((10,)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons, debug_server=f"http://127.0.0.1:{free_port()}")
        result = captured(settings, tmp_path / "out")
    assert [file.pid for file in result.files] == [10]
    assert "discovery" in gaps(result) or "ConnectError" in gaps(result)


def test_no_debug_server_and_no_daemon_is_one_line(tmp_path: Path) -> None:
    settings = job_settings(tmp_path, [], debug_server=f"http://127.0.0.1:{free_port()}")
    result = captured(settings, tmp_path / "out")
    assert (result.status, result.files) == ("refused", ())
    assert result.refusal is not None
    assert "ConnectError" in result.refusal
    assert [row.counts for row in record(settings)] == [False]


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the debug server of a real job that hangs, once all of its ranks are known
    there."""
    folder, port = tmp_path_factory.mktemp("job"), free_port()
    with _job(folder, port):
        _discovered(DebugServerClient(ALLOWED), f"http://127.0.0.1:{port}", folder / "job.log")
        yield f"http://127.0.0.1:{port}"


def test_a_real_job_that_hangs_shows_where_its_ranks_stand(tmp_path: Path, frontend: str) -> None:
    client = DebugServerClient(ALLOWED)
    found = asyncio.run(client.discover(frontend)).by_rank
    assert sorted(found) == [0, 1]
    stacks = asyncio.run(client.stacks(found[1], tmp_path / "stacks_rank1.txt")).read_text()
    dump = asyncio.run(
        client.flight_recorder(found[0], tmp_path / "rank0.fr_trace_json.json")
    ).read_bytes()
    trace = asyncio.run(client.profile(found[0], 0.3, tmp_path / "rank0.json")).read_bytes()
    assert "stands_here" in stacks
    assert b'"entries"' in dump
    assert b"traceEvents" in trace


def test_a_real_job_that_hangs_is_captured_with_the_line_where_it_stands(
    tmp_path: Path, frontend: str
) -> None:
    given = {"debug_server": frontend, "debug_hosts": ALLOWED, "ranks": 2}
    result = captured(job_settings(tmp_path, [], **given), tmp_path / "out", seconds=0.3)
    by_rank = {(file.rank, file.kind): file.path.read_text() for file in result.files}
    assert (result.status, result.gaps) == ("recorded", ())
    assert len(by_rank) == 6
    assert "stands_here" in by_rank[1, "stacks"]
    assert "stands_here" not in by_rank[0, "stacks"]
    done = trace(result.folder, "--quiet")
    assert done.returncode == 0, done.stderr
    assert "Rank 1 has not joined" in done.stdout
    assert "stands_here (job.py:" in done.stdout
