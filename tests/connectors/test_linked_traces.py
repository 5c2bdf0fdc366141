"""Traces that an alert links to become files of the case; each link that is not followed is a gap
with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Link
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.transport.guarded_fetch import AllowedHost, FetchGuard
from faultline.connectors.vendors.traces import CONNECTOR
from faultline.connectors.vendors.traces.connector import TrainingTracesConnector
from faultline.connectors.vendors.traces.linked import trace_links
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.test_guarded_fetch import LOOPBACK, Names

TRACE = b'{"traceEvents": []}'


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        server.on("/run/rank0_trace.json", Reply(TRACE))
        yield server


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def collected(
    server: LocalServer,
    files: Path,
    *links: Link,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Collected:
    port = server.url.rsplit(":", 1)[1]
    names = Names(traces_example=[["127.0.0.1"]])
    guard = FetchGuard(
        "traces",
        (AllowedHost.read(f"http://traces.example:{port}", "traces.hosts"),),
        LOOPBACK,
        names,
    )
    connector = TrainingTracesConnector((), guard=guard, **more)
    request = request_for(files)
    alert = request.alert.model_copy(update={"links": links, "labels": labels or {}})
    return asyncio.run(collect_from(connector, replace(request, alert=alert)))


def at(server: LocalServer, path: str) -> str:
    return f"http://traces.example:{server.url.rsplit(':', 1)[1]}{path}"


def test_a_linked_trace_is_a_file_of_the_case(server: LocalServer, files: Path) -> None:
    url = at(server, "/run/rank0_trace.json?X-Amz-Signature=hush")
    found = collected(server, files, labels={"trace_url": url})
    (item,) = found.items
    assert (item.kind, item.bytes, found.missing) == ("traces", len(TRACE), ())
    assert (files / str(item.file)).read_bytes() == TRACE
    assert "rank 0" in item.details["what"]
    assert "hush" not in repr(item), (
        "what opens the file is not told to everybody who reads the case"
    )


def test_a_link_that_may_not_be_followed_is_a_gap_with_its_reason_and_the_others_go_on(
    server: LocalServer, files: Path
) -> None:
    inside = Link(title="Trace", url="http://169.254.169.254/latest/meta-data/iam")
    good = Link(title="Profile", url=at(server, "/run/rank0_trace.json"))
    found = collected(server, files, inside, good)
    (gap,) = found.missing
    assert "not among the allowed hosts" in gap.reason
    assert gap.query == "http://169.254.169.254/latest/meta-data/iam"
    assert len(found.items) == 1


def test_what_is_too_large_leaves_nothing_behind(server: LocalServer, files: Path) -> None:
    server.on(
        "/run/rank1_trace.json", Reply(b"x" * 5_000, headers={"Content-Type": "application/json"})
    )
    found = collected(
        server,
        files,
        Link(title="Trace", url=at(server, "/run/rank1_trace.json")),
        max_file_bytes=1_024,
    )
    assert "1,024 bytes" in found.missing[0].reason
    assert [p for p in files.rglob("*") if p.is_file()] == []


def test_names_of_files_cannot_leave_the_folder(server: LocalServer, files: Path) -> None:
    server.on("/a/..%2f..%2f..%2fetc%2frank0_trace.json", Reply(TRACE))
    found = collected(
        server,
        files,
        Link(title="Trace", url=at(server, "/a/..%2f..%2f..%2fetc%2frank0_trace.json")),
    )
    for item in found.items:
        assert (files / str(item.file)).resolve().is_relative_to(files.resolve())
    assert found.items


def test_links_to_other_things_are_not_followed_nor_missed(
    server: LocalServer, files: Path
) -> None:
    links = (
        Link(title="Dashboard", url=at(server, "/d/1")),
        Link(title="Runbook", url="https://wiki.example/run"),
    )
    found = collected(server, files, *links, labels={"alertname": "A", "url": "https://x.example/"})
    assert (found.items, found.missing, server.asked) == ((), (), [])


def test_which_links_are_traces() -> None:
    alert = request_for(Path()).alert
    given = {
        "trace_url": "https://a.example/1 https://a.example/2",
        "profile": "https://a.example/3",
        "note": "https://a.example/x/rank7_trace.json.gz",
        "runbook": "https://a.example/page",
        "trace": "not a link",
    }
    found = trace_links(alert.model_copy(update={"labels": given, "links": ()}))
    assert found == (
        "https://a.example/1",
        "https://a.example/2",
        "https://a.example/3",
        "https://a.example/x/rank7_trace.json.gz",
    )


def test_a_thousand_links_are_bounded(server: LocalServer, files: Path) -> None:
    many = " ".join(f"https://evil.example/{n}" for n in range(1_000))
    found = collected(server, files, labels={"traces": many})
    assert len(found.missing) == 16


def test_without_hosts_no_link_is_followed_and_nothing_is_said(files: Path) -> None:
    assert CONNECTOR.configured(Settings()) is None
    connector = CONNECTOR.configured(
        Settings.model_validate({"traces": {"locations": [str(files)]}})
    )
    assert connector is not None
    request = request_for(files)
    alert = request.alert.model_copy(update={"labels": {"trace_url": "https://a.example/1"}})
    assert asyncio.run(collect_from(connector, replace(request, alert=alert))) == Collected()


def test_the_settings_make_the_guard_and_check_says_so() -> None:
    connector = CONNECTOR.configured(
        Settings.model_validate(
            {"traces": {"hosts": ["*.traces.example"], "private_networks": ["10.0.0.0/8"]}}
        )
    )
    assert connector is not None
    said = asyncio.run(connector.check())
    assert (said.ok, "*.traces.example" in said.line) == (True, True)
