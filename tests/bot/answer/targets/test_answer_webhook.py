"""Each revision of an answer is one signed delivery."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.bot.answer.targets.chats.webhook import WebhookDeliveries
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Store
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import an_hour_later, settings
from tests.bot.answer.targets.test_chats import accepted, outcome

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """Keeps what it gets, once for each id, as the page advises."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: int = 0
    answer_with: int = 204
    url: str = ""

    async def take(self, request: Request) -> Response:
        """One delivery; its signature is checked as Standard Webhooks says."""
        body = await request.body()
        name, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        signed = f"{name}.{at}.".encode() + body
        proof = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert request.headers["webhook-signature"] == f"v1,{proof}"
        self.requests += 1
        self.kept.setdefault(name, json.loads(body))
        return Response(status_code=self.answer_with)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    url, stop = serve_in_thread(Starlette(routes=[Route("/in", made.take, methods=["POST"])]))
    made.url = f"{url}/in"
    yield made
    stop()


def opened(receiver: Receiver, store: Store) -> WebhookDeliveries:
    given = settings(answer_webhook={"url": receiver.url, "secret": SECRET})
    [target] = [one for one in declared_targets(given) if one.name == "answer_webhook"]
    return WebhookDeliveries(target, given, store, owner="w")


def test_each_revision_is_delivered_once_with_the_next_number(
    receiver: Receiver, store: Store
) -> None:
    deliveries = opened(receiver, store)
    investigation = accepted(store)

    async def story() -> None:
        await deliveries.announce(investigation)
        for headline in ("one", "one", "two", "one"):
            await deliveries.answer(outcome(investigation, headline))
        await deliveries.announce(investigation)

    asyncio.run(story())
    told = list(receiver.kept.values())
    assert receiver.requests == len(told) == 4
    assert [one["delivery"] for one in told] == [1, 2, 3, 4]
    assert [one["type"].partition(".")[2] for one in told] == ["started", *["answered"] * 3]
    assert [one["answer"] and one["answer"]["headline"] for one in told] == [
        None, "one", "two", "one",
    ]  # fmt: skip
    assert {one["investigation"] for one in told} == {investigation.id}
    assert told[1]["answer"]["causes"][0]["subject"] == "payments"


def test_what_is_sent_again_has_the_same_id(receiver: Receiver, store: Store) -> None:
    deliveries = opened(receiver, store)
    investigation = accepted(store)
    receiver.answer_with = 502
    with pytest.raises(ConnectorError) as failed:
        asyncio.run(deliveries.answer(outcome(investigation)))
    assert failed.value.retryable
    receiver.answer_with = 204
    an_hour_later(store)
    asyncio.run(deliveries.answer(outcome(investigation)))
    assert receiver.requests == 2
    [once] = receiver.kept.values()
    assert once["delivery"] == 1


def test_two_workers_deliver_once(receiver: Receiver, store: Store) -> None:
    investigation = accepted(store)
    one, other = (opened(receiver, store) for _ in range(2))

    async def both() -> None:
        await asyncio.gather(*(each.answer(outcome(investigation)) for each in (one, other)))

    asyncio.run(both())
    assert receiver.requests == 1


@pytest.mark.parametrize("secret", ["short", "whsec_" + base64.b64encode(b"k" * 23).decode(), "%"])
def test_a_weak_secret_is_refused(secret: str) -> None:
    with pytest.raises(SettingsError, match="at least 24 bytes"):
        settings_of({}, {"FAULTLINE_ANSWER_WEBHOOK__SECRET": secret})
