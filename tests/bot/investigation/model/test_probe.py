from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faultline.analysis.errors import FaultlineError
from faultline.bot.investigation.model.abilities import remembered_abilities
from faultline.bot.investigation.model.model_check import Probed, probe
from faultline.bot.settings.investigation import ModelSettings
from tests.bot.answer.writer.openai_server import (
    Answer,
    OpenAIServer,
    calls,
    counts_nothing,
    fails,
    lacks,
    never_streams,
    says_text,
    serving,
)


def able(body: dict[str, Any]) -> Any:
    """Does as instructed."""
    if body.get("response_format") or body.get("text"):
        return says_text('{"word": "lantern"}')(body)
    return (calls(("echo", {"word": "lantern"})) if body.get("tools") else says_text("lantern"))(
        body
    )


def probed(server: OpenAIServer, **settings: Any) -> Probed:
    return asyncio.run(
        probe(ModelSettings(**{"name": "local-model", "base_url": server.url} | settings))
    )


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_endpoint_that_can_do_all_is_said_to(api: str) -> None:
    with serving(able) as server:
        found = probed(server, api=api)
    assert found.listed
    assert found.calls_tools
    assert found.keeps_schema
    assert found.line == f"local-model at {server.url}; tools, JSON schema, streaming, token counts"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lacks("tools", able), "no tools"),
        (lacks("tools", able, status=500), "no tools"),
        (lacks("response_format", able), "JSON only when asked in words"),
        (lacks("stream", able), "no streaming"),
        (never_streams(able), "no streaming"),
        (counts_nothing(able), "no token counts"),
        (says_text('{"word": "lantern"}'), "did not call the tool"),
        (says_text("certainly!"), "did not keep to the schema"),
    ],
)
def test_what_an_endpoint_lacks_is_said_and_remembered(answer: Answer, said: str) -> None:
    with serving(answer) as server:
        found = probed(server)
        settings = ModelSettings(name="local-model", base_url=server.url)
        assert remembered_abilities(settings) == found.abilities
    assert said in found.line


def test_a_model_that_the_server_does_not_list_is_said() -> None:
    with serving(able) as server:
        server.models = ["another"]
        assert "does not list it" in probed(server).line


def test_a_server_that_answers_nothing_is_an_error_of_one_line() -> None:
    with serving(fails(401)) as server, pytest.raises(FaultlineError) as error:
        probed(server)
    assert "HTTP 401" in str(error.value)
    assert "\n" not in str(error.value)
