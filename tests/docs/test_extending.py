"""The examples of docs/extending.md work as they stand."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bot.intake.accepting import Ignored
from bot.settings import Settings
from connectors.base import collect_one
from tests.analysis.cases import at, write_case
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer, Reply

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def example(heading: str) -> str:
    """The Python file below a heading of the page."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found[1]


@pytest.fixture
def load() -> Iterator[Any]:
    """Runs an example as a module of its own."""
    names: list[str] = []

    def loaded(heading: str) -> Any:
        name = f"example_{len(names)}"
        module = ModuleType(name)
        sys.modules[name] = module
        names.append(name)
        exec(compile(example(heading), name, "exec", dont_inherit=True), module.__dict__)
        return module

    yield loaded
    for name in names:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("heading", "most"),
    [("A connector", 40), ("An analyzer", 40), ("A way in for alerts", 40), ("A reply target", 50)],
)
def test_an_example_is_short(heading: str, most: int) -> None:
    code = [
        line
        for line in example(heading).splitlines()
        if line.strip() and not line.startswith(("from", "import"))
    ]
    assert len(code) <= most


def test_the_connector_reads_a_status_page_and_nothing_else(load: Any, tmp_path: Path) -> None:
    incidents = [
        {
            "name": "Elevated errors",
            "status": "investigating",
            "created_at": "2026-03-02T11:40:00Z",
            "shortlink": "x",
        },
        {"name": "Without a time", "status": "resolved", "created_at": "soon"},
    ]
    with LocalServer() as server:
        server.on("/api/v2/incidents.json", Reply({"incidents": incidents}))
        connector = load("A connector").build(
            SimpleNamespace(statuspage=SimpleNamespace(url=server.url))
        )
        found = asyncio.run(collect_one(connector, request_for(tmp_path)))
        assert asyncio.run(connector.check()).ok
        assert server.methods == {"GET"}
    assert found.tables["monitors"].select("monitor", "state").rows() == [
        ("Elevated errors", "investigating")
    ]
    assert not found.missing


def test_the_connectors_failure_is_a_gap(load: Any, tmp_path: Path) -> None:
    with LocalServer() as server:
        server.on("/api/v2/incidents.json", Reply(status=403))
        connector = load("A connector").StatusPage(server.url)
        found = asyncio.run(collect_one(connector, request_for(tmp_path)))
    assert [gap.kind for gap in found.missing] == ["monitors"]


def span(number: int, parent: str | None) -> dict[str, Any]:
    return {
        "trace_id": "t1",
        "span_id": f"s{number}",
        "parent_id": parent,
        "service": "checkout",
        "operation": "GET /",
        "start": at(5),
        "duration_us": 100.0,
    }


@pytest.mark.parametrize(
    ("parents", "lost"), [(["s0", "s0", "s9"], "33"), (["s0"] * 20, None), ([], None)]
)
def test_the_analyzer_finds_lost_parents(
    load: Any, tmp_path: Path, parents: list[str], lost: str | None
) -> None:
    spans = [span(0, None), *(span(n, parent) for n, parent in enumerate(parents, start=1))]
    found = load("An analyzer").orphan_spans(write_case(tmp_path / "case", spans=spans))
    assert len(found) == (lost is not None)
    for one in found:
        assert lost in one.sentence
        quoted = {float(n) for n in re.findall(r"\d+", one.sentence)}
        assert quoted <= set(one.numbers.values())


@pytest.mark.parametrize(("action", "status"), [("Create", "firing"), ("Close", "resolved")])
def test_the_way_in_reads_an_alert_and_its_end(load: Any, action: str, status: str) -> None:
    alert = {
        "alertId": "a-1",
        "message": "checkout\u202e is slow",
        "priority": "P1",
        "createdAt": 1_770_000_000_000,
    }
    body = json.dumps(
        {"action": action, "alert": alert | {"details": {"service": "checkout"}}}
    ).encode()
    taken = load("A way in for alerts").read_opsgenie(body, Settings(), now=NOW)
    assert (taken.alert.status, taken.alert.title, taken.alert.severity) == (
        status,
        "checkout is slow",
        "P1",
    )
    assert taken.delivery.id == f"{action}:a-1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"action": "Create"}',
        b'{"action": ["Create"], "alert": {"alertId": "a"}}',
        b'{"action": "Create", "alert": [1]}',
        b'{"action": "Create", "alert": {"alertId": {"a": 1}, "details": 7}}',
    ],
)
def test_the_way_in_ignores_what_is_no_alert(load: Any, body: bytes) -> None:
    assert isinstance(load("A way in for alerts").read_opsgenie(body, Settings(), now=NOW), Ignored)
