"""`faultline topology`, run as a person runs it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faultline.bot.cli import topology_command
from faultline.bot.cli.main import app
from faultline.bot.settings import load_settings
from faultline.bot.store import memory
from faultline.bot.store.databases import open_store
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from tests.databases import make_tables

SEEN = datetime(2026, 11, 21, 3, 4, tzinfo=UTC)
PROD = {"environment": "prod"}
CONFIGURED = """
[services.checkout]
depends_on = ["payments"]
aliases = ["shop-checkout"]
[services.payments]
"""


def call(caller: str, callee: str, source: str, days: float = 0, id_: str = "I1") -> LearnedCall:
    return LearnedCall(caller, callee, source, SEEN - timedelta(days=days), id_, PROD)


LEARNED = [
    call("checkout", "payments", "mesh", 1),
    call("checkout", "stock", "spans", 2, "I2"),
    call("checkout", "stock", "mesh", 1),
    call("web", "search\n\x1b[31mred", "mesh"),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The settings file of an installation that has learned nothing."""
    state = tmp_path / "state"
    make_tables(state)
    file = tmp_path / "faultline.toml"
    file.write_text(f'[store]\ndirectory = "{state}"\n{CONFIGURED}')
    return file


def printed(config: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["topology", "--config", str(config), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def learn(config: Path) -> None:
    store = open_store(load_settings(config))
    LearnedCalls(store.engine).learn(LEARNED)
    store.engine.dispose()


def test_each_pair_is_a_line_with_its_sources_and_when_it_was_seen(config: Path) -> None:
    learn(config)
    head, payments, stock, search = printed(config).splitlines()
    columns = ["CALLER", "CALLEE", "WHERE", "FROM", "CERTAINTY", "LAST", "SEEN", "PLACE"]
    assert head.split() == columns
    cells = re.split(r" {2,}", payments)
    assert cells[:3] == ["checkout", "payments", "catalogue, mesh"]
    assert cells[3:] == ["0.95", "2026-11-20 03:04Z", "environment prod"]
    assert "mesh, spans" in stock
    assert search.startswith("web       search [31mred")
    assert {line.index("environment") for line in (payments, stock, search)} == {
        head.index("PLACE")
    }


def test_one_service_is_asked_for_by_any_of_its_names(config: Path) -> None:
    learn(config)
    lines = printed(config, "--service", "shop-checkout").splitlines()
    assert len(lines) == 3
    assert not any("web" in line for line in lines)


def test_for_programs_it_is_json(config: Path) -> None:
    learn(config)
    found = json.loads(printed(config, "--json", "--service", "stock"))
    assert found == [
        {
            "caller": "checkout",
            "callee": "stock",
            "sources": ["mesh", "spans"],
            "certainty": 1.0,
            "last_seen": "2026-11-20T03:04:00+00:00",
            "learned_in": "I1",
            "place": PROD,
        }
    ]


@pytest.mark.parametrize(("limit", "is_cut"), [(4, True), (5, False)])
def test_a_list_that_was_cut_says_how_to_see_the_rest(
    limit: int, is_cut: bool, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(config)
    for module in (memory, topology_command):
        monkeypatch.setattr(module, "MAX_CALLS", limit)
    assert ("Only the first 4 are shown; name a --service." in printed(config)) == is_cut


def test_what_the_settings_alone_say_is_said_to_be_theirs(config: Path) -> None:
    _, line = printed(config).splitlines()
    assert line.split() == ["checkout", "payments", "catalogue", "0.9", "in", "the", "settings"]


def test_where_nothing_is_known_it_says_how_to_make_it_known(config: Path) -> None:
    said = printed(config, "--service", "web")
    assert said.startswith("Nothing is known of who calls web and whom it calls.\n")
    assert "services.NAME.depends_on" in said
    assert "docs/who-calls-whom.md" in said
    assert json.loads(printed(config, "--service", "web", "--json")) == []
