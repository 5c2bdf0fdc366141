"""GitHub's published specification between our connector and our stand-in: what we ask fits it, and
so does what the tests answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.code_hosts import GitHubSettings
from faultline.connectors.vendors.code_hosts.github import GitHubConnector
from faultline.connectors.vendors.code_hosts.github_app import GitHubApp
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import github as stand_in
from tests.connectors.test_github_app import answer_of_exchange, settings_of
from tests.contracts.emulators import prism_before


@pytest.fixture(scope="module")
def github(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, LocalServer]]:
    """The address of prism in front of the stand-in, and the stand-in.

    The specification calls `created` a moment; its own text, and GitHub, take a range of moments.
    """
    folder = tmp_path_factory.mktemp("prism")
    spec = json.loads((shared / "specs/github.trim.json").read_bytes())
    del spec["components"]["parameters"]["created"]["schema"]["format"]
    (folder / "github.json").write_text(json.dumps(spec))
    with LocalServer() as server:
        stand_in.serve(server)
        app = GitHubApp.of(settings_of("https://api.github.com"))
        server.on(app.path, Reply(answer_of_exchange(), status=201))
        with prism_before(folder / "github.json", server.url, folder) as url:
            yield url, server


@pytest.fixture(scope="module")
def collected(
    github: tuple[str, LocalServer], tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    """A collection for an alert with a stack trace, as an app's installation."""
    services = {"checkout": (stand_in.REPOSITORY,)}
    connector = GitHubConnector(settings_of(github[0]), services)
    alert = Alert(
        source="t", title="t", started_at=ALERT_AT, summary=f"in app/{stand_in.POOL_FILE}:12"
    )
    request = request_for(tmp_path_factory.mktemp("files"), services=("checkout",), alert=alert)
    return asyncio.run(collect_from(connector, request))


def test_every_call_and_its_answer_fit_the_specification(collected: Collected) -> None:
    assert collected.missing == ()
    ids = set(collected.tables["changes"]["id"].to_list())
    assert ids == {stand_in.README, stand_in.POOL, stand_in.SETTING}
    assert any("connections.get()" in item.details.get("code", "") for item in collected.items)


def test_the_stand_in_was_asked_for_everything(
    github: tuple[str, LocalServer], collected: Collected
) -> None:
    asked = " ".join(github[1].paths())
    for part in (
        "/deployments/13/statuses",
        "/compare/",
        "/pulls/42/files",
        "/actions/runs",
        "/releases",
        "/contents/",
    ):
        assert part in asked
    posted = [a.path for a in github[1].asked if a.method != "GET"]
    assert posted == ["/app/installations/34/access_tokens"]


def test_the_check_fits_the_specification(github: tuple[str, LocalServer]) -> None:
    section = GitHubSettings(token=SecretStr("t"), api_url=github[0])
    connector = GitHubConnector(section, {"checkout": (stand_in.REPOSITORY,)})
    check = asyncio.run(connector.check())
    assert check.ok, check.line
