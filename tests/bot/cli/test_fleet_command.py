"""`faultline fleet`, run as a person runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faultline.analysis.training.fleet_parts import BlamedPart
from faultline.analysis.vocabulary import Alert
from faultline.bot.cli.main import app
from faultline.bot.settings import load_settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.fleet import FleetMemory
from tests.databases import make_tables

NOW = datetime.now(UTC)
HOSTS = tuple(f"gpu-{n:02d}" for n in range(1, 17))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The settings file of an installation without any investigation."""
    state = tmp_path / "state"
    make_tables(state)
    file = tmp_path / "faultline.toml"
    file.write_text(f'[store]\ndirectory = "{state}"\n')
    return file


def printed(config: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["fleet", "--config", str(config), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def investigated(config: Path, days: tuple[int, ...], host: str, job: str) -> list[str]:
    """Investigations of that many days ago that blame this host."""
    store = open_store(load_settings(config))
    ids = []
    for day in days:
        at = NOW - timedelta(days=day)
        alert = Alert(source="test", title=f"{job} {day}", started_at=at, service=job)
        id_ = store.accept(alert, now=at).investigation_id
        assert id_ is not None
        blamed = [BlamedPart(host=host, part="gpu3", fault="gpu_xid")]
        fleet = FleetMemory(store.engine)
        fleet.remember(id_, at=at, job=job, hosts=HOSTS, blamed=blamed)
        ids.append(id_)
    store.engine.dispose()
    return ids


def test_machines_that_were_to_blame_again_are_listed_with_the_answers(config: Path) -> None:
    ids = investigated(config, (2, 4, 6, 8), "gpu-07", "llm\n\x1b[31mred")
    head, *incidents = printed(config).splitlines()
    assert head == "gpu-07: to blame in 4 of 4 incidents, mostly gpu3; by chance 2e-05"
    assert [one.split()[2] for one in incidents] == ids
    assert all(one.endswith("gpu xid") and "\x1b" not in one for one in incidents)
    (document,) = json.loads(printed(config, "--json"))
    assert (document["host"], document["blamed"], document["took_part"]) == ("gpu-07", 4, 4)


def test_a_fleet_without_such_a_machine_says_so(config: Path) -> None:
    investigated(config, (2,), "gpu-07", "llm")
    said = "In the last 30 days no machine was to blame more often than by chance.\n"
    assert printed(config, "--days", "30") == said
    assert json.loads(printed(config, "--json")) == []
