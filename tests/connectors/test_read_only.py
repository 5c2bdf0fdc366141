"""No connector can issue a write: each is built from settings, run against its vendor's stand-in,
and what it sent is looked at."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS, build_connectors
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.vendors.wandb.queries import QUERIES
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT

SENT_TO_WANDB = {query.text for query in QUERIES}


def stand_in(name: str) -> ModuleType:
    """The stand-in of a connector's vendor."""
    return importlib.import_module(f"tests.connectors.stand_ins.{name}")


OVER_HTTP = [name for name in CONNECTORS if getattr(stand_in(name), "HAS_ANSWERS", True)]
"""The others are tested before real servers alone, which hold them to reading themselves."""


def settings_for(server: LocalServer, case: Path, *names: str) -> Settings:
    """Settings in which these connectors, or all, are configured to speak to the server."""
    tables: dict[str, dict[str, Any]] = {"recorded": {"case": case}}
    for name in names or OVER_HTTP:
        for table, values in stand_in(name).settings(server.url).items():
            tables[table] = tables.get(table, {}) | values
    return Settings.model_validate(tables)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """The smallest case."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "alert.json").write_text(
        json.dumps({"source": "x", "title": "t", "started_at": "2026-03-02T12:00:00Z"})
    )
    return folder


def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boto3 looks for them."""
    for key, value in {
        "ACCESS_KEY_ID": "test",
        "SECRET_ACCESS_KEY": "test",
        "DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{key}", value)


def run(connector: Any, folder: Path) -> None:
    """Everything a connector offers."""
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    folder.mkdir()
    request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
    asyncio.run(collect_from(connector, request))
    asyncio.run(connector.check())
    if hasattr(connector, "enrich"):
        asyncio.run(connector.enrich(alert))


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_connector_reads_and_only_reads(
    name: str, server: LocalServer, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_credentials(monkeypatch)
    stand_in(name).serve(server)
    before = {p: p.read_bytes() for p in case.rglob("*") if p.is_file()}
    connector = CONNECTORS[name].configured(settings_for(server, case, name))
    assert connector is not None
    assert connector.name == name
    run(connector, tmp_path / "files")
    posts = getattr(stand_in(name), "READING_POSTS", frozenset())
    assert [
        f"{a.method} {a.path}" for a in server.asked if a.method != "GET" and a.path not in posts
    ] == []
    assert bool(server.asked) == (name != "recorded")
    assert name != "wandb" or all(
        json.loads(a.body)["query"] in SENT_TO_WANDB for a in server.asked
    )
    assert {p: p.read_bytes() for p in case.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_server_that_answers_nonsense_makes_gaps_and_no_failure(
    name: str, server: LocalServer, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_credentials(monkeypatch)
    stand_in(name).serve(server)
    nonsense = iter([b"<html>", b"[]", b"{}", b"null", b'{"data": 1}'] * 200)

    def answer(_: Asked) -> Reply:
        return Reply(next(nonsense))

    for path in list(server._replies):
        server.on(path, answer)
    connector = CONNECTORS[name].configured(settings_for(server, case, name))
    assert connector is not None
    folder = tmp_path / "files"
    folder.mkdir()
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    collected = asyncio.run(
        collect_from(connector, request_for(folder, services=("cart",), job="llm-1", alert=alert))
    )
    assert name == "recorded" or collected.missing
    assert not any("internal error" in m.reason for m in collected.missing)


@pytest.mark.parametrize("name", CONNECTORS)
def test_the_deadline_and_the_size_of_every_connector_are_settings(
    name: str, server: LocalServer, case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_credentials(monkeypatch)
    settings = settings_for(server, case, name)
    usual = CONNECTORS[name].configured(settings)
    own = getattr(settings, name).model_copy(update={"deadline_s": 7.0, "max_mb": 0.5})
    given = CONNECTORS[name].configured(settings.model_copy(update={name: own}))
    assert usual is not None
    assert given is not None
    assert (given.limits.deadline_s, given.limits.max_bytes) == (7.0, 524_288)
    assert given.limits.requests_per_s == usual.limits.requests_per_s


def test_nothing_is_built_from_settings_that_configure_nothing() -> None:
    assert build_connectors(Settings()) == ()


def test_connectors_are_built_in_the_registrys_order(server: LocalServer, case: Path) -> None:
    built = build_connectors(settings_for(server, case, *CONNECTORS))
    assert [c.name for c in built] == list(CONNECTORS)
