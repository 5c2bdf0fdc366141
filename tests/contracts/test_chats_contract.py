"""What is sent to chats fits their published descriptions: the connector's, Microsoft Graph's, and
the schema of Adaptive Cards."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from jsonschema import Draft6Validator, Draft202012Validator, ValidationError

from faultline.bot.answer.targets.chats.teams_card import MAX_CARD_BYTES, card_of
from faultline.bot.store.store import Store
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.fake_chats import CHANNEL, FakeChats
from tests.bot.answer.targets.test_chats import HOSTILE, accepted, opened, outcome

LONG = "\n".join([HOSTILE, "Why:", *(f"- {n} {'long ' * 100}" for n in range(200)), "Details: x"])


@pytest.fixture
def chats() -> Iterator[FakeChats]:
    fake = FakeChats()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


@pytest.fixture
def cards(shared: Path) -> Draft6Validator:
    """Of the version that the cards name."""
    schema = json.loads((shared / "specs/adaptive-card-1.5.0.schema.json").read_text())
    return Draft6Validator(schema)


def sent(chats: FakeChats, store: Store) -> list[tuple[str, str, Any]]:
    """Every request while a message is sent, looked for and edited."""
    target = opened("msteams", chats, store)
    investigation = accepted(store, title=HOSTILE)

    async def story() -> None:
        await target.announce(investigation)
        key = target._key(investigation)
        assert await target.find(CHANNEL, key, investigation.accepted_at)
        await target.answer(outcome(investigation, HOSTILE))

    asyncio.run(story())
    return chats.requests


def described(spec: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """The operation of a request."""
    for pattern, operations in spec["paths"].items():
        fits = re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", pattern), path)
        if fits and method.lower() in operations:
            return dict(operations[method.lower()])
    raise AssertionError((method, path))


def test_activities_are_those_of_the_connector(
    chats: FakeChats, store: Store, shared: Path
) -> None:
    spec = json.loads((shared / "specs/botframework-connector.swagger.json").read_text())
    methods = []
    for method, path, body in sent(chats, store):
        if not path.startswith("/teams"):
            continue
        operation = described(spec, method, unquote(path.removeprefix("/teams")))
        [given] = [one for one in operation["parameters"] if one["in"] == "body"]
        schema = {**given["schema"], "definitions": spec["definitions"]}
        Draft202012Validator(schema).validate(body)
        assert set(body) <= set(spec["definitions"]["Activity"]["properties"])
        methods.append(method)
    assert methods == ["POST", "PUT"]


def test_graph_lists_a_channels_messages_as_we_read_them(
    chats: FakeChats, store: Store, shared: Path
) -> None:
    file = shared / "specs/microsoft-graph-channel-messages.json.gz"
    spec = json.loads(gzip.decompress(file.read_bytes()))
    [path] = [path for method, path, _ in sent(chats, store) if method == "GET"]
    operation = described(spec, "GET", unquote(path.removeprefix("/graph/v1.0")))
    assert operation["operationId"] == "teams.channels.ListMessages"
    assert "#/components/parameters/top" in [one.get("$ref") for one in operation["parameters"]]
    attachment = json.dumps(spec["components"]["schemas"]["microsoft.graph.chatMessageAttachment"])
    assert '"content"' in attachment


def test_each_card_fits_the_schema(chats: FakeChats, store: Store, cards: Draft6Validator) -> None:
    checked = 0
    for _, _, body in sent(chats, store):
        for attachment in (body or {}).get("attachments", ()):
            cards.validate(attachment["content"])
            checked += 1
    assert checked == 2


def test_the_schema_would_refuse_another(cards: Draft6Validator) -> None:
    card = card_of("a\nb", "k")
    card["body"][0]["inlines"][0]["weight"] = "Heavy"
    with pytest.raises(ValidationError):
        cards.validate(card)


def test_the_longest_answer_still_fits(cards: Draft6Validator) -> None:
    card = card_of(LONG, "k")
    cards.validate(card)
    assert len(json.dumps(card).encode()) <= MAX_CARD_BYTES
    assert card["body"][-1]["inlines"][0]["text"] == "…"
    assert len(card["body"]) > 20
