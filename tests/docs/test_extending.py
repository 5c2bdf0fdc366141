"""The examples of docs/extending.md work as they stand."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from faultline.analysis.case.folder import read_case
from faultline.analysis.diagnosis import diagnose
from faultline.bot.intake import alert_sources
from faultline.bot.intake.accepting import Ignored, store_accept
from faultline.bot.intake.routes import intake_routes
from faultline.bot.policy import reply_targets
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings, load_settings
from faultline.bot.settings import alert_sources as alert_source_list
from faultline.bot.settings import alerts as alert_settings
from faultline.bot.settings import reply_targets as reply_target_list
from faultline.bot.settings.settings import settings_model
from faultline.bot.store.store import Store
from faultline.connectors.shared.contract.base import collect_from
from tests.analysis.cases import at, write_case
from tests.analysis.traces.doctor.written_ranks import gpu_steps
from tests.analysis.traces.written_traces import document, write_trace
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.databases import store_engine

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def example(heading: str) -> str:
    """The Python file below a heading of the page."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found[1]


@pytest.fixture
def load() -> Iterator[Any]:
    """Runs an example as a separate module."""
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
    [
        ("A connector", 56),
        ("An analyzer", 50),
        ("A rule of the trace doctor", 40),
        ("An alert source", 40),
        ("A reply target", 50),
        ("A button", 25),
    ],
)
def test_an_example_is_short(heading: str, most: int) -> None:
    code = re.sub(r"^(from|import) [^(\n]*(\([^)]*\))?\n", "", example(heading), flags=re.M)
    code = [line for line in code.splitlines() if line.strip()]
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
        example = load("A connector")
        section = example.StatusPageSettings(url=server.url)
        connector = example.CONNECTOR.configured(SimpleNamespace(statuspage=section))
        found = asyncio.run(collect_from(connector, request_for(tmp_path)))
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
        found = asyncio.run(collect_from(connector, request_for(tmp_path)))
    assert [gap.kind for gap in found.missing] == ["monitors"]


TOKEN = "st4tus-t0ken"


@pytest.mark.parametrize(
    "refusal",
    [
        Reply({"error": f"token {TOKEN} was revoked"}, status=401),
        Reply({"error": f"token {TOKEN} was revoked"}, status=503, headers={"Retry-After": "60"}),
        Reply(f"<html>{TOKEN}</html>".encode()),
        Reply({"incidents": TOKEN}),
    ],
)
def test_the_connectors_token_is_sent_as_a_header_and_is_in_no_error(
    load: Any, tmp_path: Path, refusal: Reply
) -> None:
    example = load("A connector")
    with LocalServer() as server:
        server.on("/api/v2/incidents.json", refusal)
        section = example.StatusPageSettings(url=server.url, token=TOKEN)
        connector = example.CONNECTOR.configured(SimpleNamespace(statuspage=section))
        collected = asyncio.run(collect_from(connector, request_for(tmp_path)))
        checked = asyncio.run(connector.check())
    assert server.asked
    assert {request.headers["Authorization"] for request in server.asked} == {f"Bearer {TOKEN}"}
    unreachable = asyncio.run(collect_from(connector, request_for(tmp_path)))
    assert collected.missing
    assert unreachable.missing
    assert not checked.ok
    assert TOKEN not in repr((section, collected, checked, unreachable))


def test_without_a_token_the_connector_sends_no_header(load: Any, tmp_path: Path) -> None:
    with LocalServer() as server:
        server.on("/api/v2/incidents.json", Reply({"incidents": []}))
        connector = load("A connector").StatusPage(server.url)
        assert asyncio.run(connector.check()).ok
        assert ["Authorization" in request.headers for request in server.asked] == [False]


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


def add(folder: Path, package: str, heading: str, name: str, registry: str) -> str:
    """Write the example and the list with its line into the folder and say where it lies."""
    folder.mkdir()
    (folder / f"{name}.py").write_text(example(heading))
    listed = (ROOT / package.replace(".", "/") / registry).read_text()
    line = f'    "{package}.{name}",\n'
    assert line in PAGE.read_text()
    before, modules, after = listed.partition("MODULES = (\n")
    (folder / registry).write_text(f"{before}{modules}{line}{after}")
    return f"{package}={folder}"


def lost_spans(case: Path) -> Path:
    """A case in which two of four spans have no parent."""
    parents = ["s0", "s0", "s8", "s9"]
    spans = [span(0, None), *(span(n, parent) for n, parent in enumerate(parents, start=1))]
    alert = {"title": "checkout has gaps in its traces", "service": "checkout"}
    write_case(case, alert=alert, spans=spans)
    return case


@dataclass(frozen=True)
class ExtendedAnswers:
    """The answers of one process with both examples in it."""

    of_lost_spans: dict[str, Any]
    of_unlike_ranks: dict[str, Any]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> ExtendedAnswers:
    """Both, by a process in which the examples' files come before those of their packages."""
    folder = tmp_path_factory.mktemp("extended")
    cases = [str(lost_spans(folder / "spans")), str(unlike_ranks(folder / "ranks"))]
    additions = [
        add(
            folder / "analysis", "faultline.analysis", "An analyzer", "orphan_spans", "analyzers.py"
        ),
        add(
            folder / "doctor",
            "faultline.analysis.traces.doctor",
            "A rule of the trace doctor",
            "mixed_accelerators",
            "rules.py",
        ),
    ]
    command = [sys.executable, "-m", "tests.docs.answer_with_analyzer", *cases, "--", *additions]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return ExtendedAnswers(*(json.loads(line) for line in run.stdout.splitlines()))


def test_the_analyzer_s_fault_becomes_the_first_cause_with_one_line(
    extended: ExtendedAnswers,
) -> None:
    found = extended.of_lost_spans
    phrase = "checkout no longer reports all of its spans"
    step = "Look at the span exporter of checkout: its queue, its limits and its sampling."
    answer, cause = found["answer"], found["answer"]["causes"][0]
    assert answer["verdict"] == "cause_found"
    assert phrase in answer["headline"]
    assert (cause["subject"], cause["kind"], cause["next_step"]) == ("checkout", "lost_spans", step)
    assert cause["summary"].startswith(phrase)
    assert phrase in found["headline"]
    assert found["step"].startswith(step.rstrip("."))
    assert found["how"] == "Share of child spans whose parent is in no trace of the incident"
    assert "of the spans" in found["said"][0]
    assert found["dropped"] == []
    answer_page, finding_page = found["pages"]
    assert phrase in answer_page
    assert step in answer_page
    assert phrase in finding_page


def test_without_its_line_the_analyzer_says_nothing(tmp_path: Path) -> None:
    spans = [span(0, None), span(1, "s8"), span(2, "s9")]
    found = diagnose(write_case(tmp_path, alert={"service": "checkout"}, spans=spans))
    assert [f.kind for f in found.findings] == []


def unlike_ranks(case: Path) -> Path:
    """A case with the traces of three ranks, the last of them on another accelerator."""
    alert = {"title": "pretrain is slow", "service": "pretrain"}
    write_case(case, alert=alert, scope={"job": "pretrain"})
    for rank, name in enumerate(("H100", "H100", "A100")):
        header = {"deviceProperties": [{"id": 0, "name": name, "computeMajor": 9}]}
        trace = document(gpu_steps(), rank, 3) | header
        write_trace(case / "traces" / f"rank{rank}.json", trace)
    return case


def test_the_doctor_s_rule_becomes_the_first_cause_with_one_line(
    extended: ExtendedAnswers, tmp_path: Path
) -> None:
    found = extended.of_unlike_ranks
    (cause, *_) = found["answer"]["causes"]
    phrase = "computes on another accelerator than the other ranks"
    assert (cause["subject"], cause["kind"]) == ("rank 2", "mixed_accelerators")
    assert cause["next_step"].startswith("Ask the scheduler for one kind of accelerator")
    assert phrase in found["answer"]["headline"]
    assert found["how"].startswith("By a rule of the trace doctor")
    without = diagnose(read_case(unlike_ranks(tmp_path / "case")))
    assert "mixed_accelerators" not in [finding.kind for finding in without.findings]


@pytest.mark.parametrize(("action", "status"), [("Create", "firing"), ("Close", "resolved")])
def test_the_alert_source_reads_an_alert_and_its_end(load: Any, action: str, status: str) -> None:
    alert = {
        "alertId": "a-1",
        "message": "checkout\u202e is slow",
        "priority": "P1",
        "createdAt": 1_770_000_000_000,
    }
    body = json.dumps(
        {"action": action, "alert": alert | {"details": {"service": "checkout"}}}
    ).encode()
    taken = load("An alert source").read_opsgenie(body, Settings(), now=NOW)
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
def test_the_alert_source_ignores_what_is_no_alert(load: Any, body: bytes) -> None:
    assert isinstance(load("An alert source").read_opsgenie(body, Settings(), now=NOW), Ignored)


def test_the_alert_source_is_served_once_its_line_is_there(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    section = PAGE.read_text().split("## An alert source\n", 1)[1]
    line = re.search(r'^    "(\w+)": "([\w.]+):(\w+)",$', section, re.MULTILINE)
    assert line is not None
    name, module, attribute = line.groups()
    monkeypatch.setitem(sys.modules, module, load("An alert source"))
    with_line = {**alert_source_list.BUILT_IN, name: f"{module}:{attribute}"}
    for reader in (alert_source_list, alert_sources, alert_settings):
        monkeypatch.setattr(reader, "BUILT_IN", with_line)
    settings_model.cache_clear()
    settings = load_settings(environ={"FAULTLINE_OPSGENIE__WEBHOOK_TOKENS": "s3cret"})
    store = Store(store_engine(f"sqlite:///{tmp_path}/extending.sqlite"))
    app = Starlette(routes=intake_routes(settings, store_accept(store)))
    body = json.dumps({"action": "Create", "alert": {"alertId": "a-1", "message": "slow"}})
    with TestClient(app) as client:
        refused = client.post("/webhooks/opsgenie", content=body)
        taken = client.post(
            "/webhooks/opsgenie", content=body, headers={"authorization": "Bearer s3cret"}
        )
    assert refused.status_code == 401
    assert taken.status_code == 202
    (investigation,) = store.latest()
    assert (investigation.alert.source, investigation.alert.title) == ("opsgenie", "slow")
    store.engine.dispose()
    settings_model.cache_clear()


def test_the_reply_target_is_configured_once_its_line_is_there(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = PAGE.read_text().split("## A reply target\n", 1)[1]
    line = re.search(r'^    "(\w+)": "([\w.]+):(\w+)",$', section, re.MULTILINE)
    assert line is not None
    name, module, attribute = line.groups()
    monkeypatch.setitem(sys.modules, module, load("A reply target"))
    with_line = {**reply_target_list.BUILT_IN, name: f"{module}:{attribute}"}
    for reader in (reply_target_list, reply_targets):
        monkeypatch.setattr(reader, "BUILT_IN", with_line)
    settings_model.cache_clear()
    reply_targets._built_in.cache_clear()
    environ = {"FAULTLINE_ROCKETCHAT__TOKEN": "s3cret", "FAULTLINE_ROCKETCHAT__CHANNEL": "c1"}
    settings = load_settings(environ=environ)
    (target,) = reply_targets.configured_targets(settings)
    assert target.label == "Rocket.Chat"
    assert target.address(ReplyTo(), None, settings) == "c1"
    assert [one.name for one in reply_targets.declared_targets(settings)].count(name) == 1
    settings_model.cache_clear()
    reply_targets._built_in.cache_clear()
