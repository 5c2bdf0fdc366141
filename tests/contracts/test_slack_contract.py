"""Slack's published specification between our connector and our stand-in: what we ask fits it, and
so does what the tests answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.slack import CONNECTOR
from faultline.connectors.vendors.slack.connector import SlackConnector
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import slack as stand_in
from tests.connectors.test_slack import from_slack
from tests.contracts.emulators import prism_before


@pytest.fixture(scope="module")
def slack(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SlackConnector, LocalServer]]:
    """The connector, prism in front of the stand-in, and the stand-in.

    The specification is older than bearer tokens: it wants a header `token` of auth.test. Its
    schemas of lists forbid the `response_metadata` that its own examples hold. Prism leaves its
    base path out.
    """
    folder = tmp_path_factory.mktemp("prism")
    spec = json.loads((shared / "specs/slack-web-2021.trim.json").read_bytes())
    call = spec["paths"]["/auth.test"]["get"]
    call["parameters"] = [p for p in call["parameters"] if p["name"] != "token"]
    for method in ("history", "replies"):
        schema = spec["paths"][f"/conversations.{method}"]["get"]["responses"]["200"]["schema"]
        schema["properties"]["response_metadata"] = {"type": "object"}
    (folder / "slack.json").write_text(json.dumps(spec | {"basePath": "/"}))
    with LocalServer() as server:
        stand_in.serve(server)
        with prism_before(folder / "slack.json", server.url, folder) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            yield connector, server


@pytest.fixture(scope="module")
def collected(
    slack: tuple[SlackConnector, LocalServer], tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    """A collection for an alert in a thread."""
    request = request_for(
        tmp_path_factory.mktemp("files"), services=("checkout",), alert=from_slack()
    )
    return asyncio.run(collect_from(slack[0], request))


def test_every_call_and_its_answer_fit_the_specification(collected: Collected) -> None:
    assert collected.missing == ()
    assert collected.tables["changes"].height == 2
    assert next(i for i in collected.items if i.kind == "alert").details


def test_the_stand_in_was_asked_for_everything(
    slack: tuple[SlackConnector, LocalServer], collected: Collected
) -> None:
    assert {"/auth.test", "/conversations.history", "/conversations.replies"} <= set(
        slack[1].paths()
    )
    assert slack[1].methods <= {"GET", "HEAD"}


def test_the_checks_calls_fit_too(slack: tuple[SlackConnector, LocalServer]) -> None:
    assert asyncio.run(slack[0].check()).ok
