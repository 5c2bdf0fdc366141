"""A vendor that answers 200 and nonsense has not done what it was asked: the try is made again,
nothing is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.pagerduty.calls import Pace, PagerDutyCalls
from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.store.store import ReplyTo, Store
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    accepted,
    settings,
    some_evidence,
)
from tests.connectors.local_http import LocalServer, Reply

HTML = Reply(b"<html>We'll be right back</html>", headers={"Content-Type": "text/html"})
NONSENSE = {
    "a list": Reply([[], 7]),
    "a number": Reply(7),
    "a text": Reply("text"),
    "nothing": Reply(b""),
    "null": Reply(b"null"),
    "other fields": Reply({"ok": True, "status": 7, "notes": {"a": 1}, "incident": [], "note": 5}),
    "fields of other types": Reply(
        {"ok": True, "channel": 5, "ts": {}, "note": {"id": None}, "notes": [1, "x"]}
    ),
    "a page": HTML,
    "half an answer": Reply(b'{"ok": true, "channel": "C0', claims=400),
    "broken JSON": Reply(b'{"ok": true, "channel": "C0'),
}


@pytest.fixture(params=NONSENSE)
def nonsense(request: pytest.FixtureRequest) -> Any:
    with LocalServer() as server:
        server.refusal = NONSENSE[request.param]
        yield server


def an_outcome(store: Store) -> Outcome:
    investigation = accepted(store, ReplyTo(pagerduty_incident="PINC1"))
    return Outcome(
        investigation,
        Answer(a_diagnosis(), a_report(headline="x"), some_evidence(), [a_gap()], None),
    )


def test_slack_is_asked_again(nonsense: LocalServer, store: Store) -> None:
    given = settings(
        slack={"bot_token": "xoxb-1", "api_url": f"{nonsense.url}/api", "channel": "C0INCIDENTS"}
    )
    place, outcome = SlackReplies(given, store, owner="w"), an_outcome(store)
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(place.announce(outcome.investigation))
    assert raised.value.retryable, raised.value
    assert store.posts(outcome.investigation.id) == {}


def test_an_edit_in_slack_is_made_again(nonsense: LocalServer, store: Store) -> None:
    if nonsense.refusal in (NONSENSE["other fields"], NONSENSE["fields of other types"]):
        pytest.skip("it says that the edit was done")
    given = settings(
        slack={"bot_token": "xoxb-1", "api_url": f"{nonsense.url}/api", "channel": "C0INCIDENTS"}
    )
    place, outcome = SlackReplies(given, store, owner="w"), an_outcome(store)
    key = f"{outcome.investigation.id}:slack"
    store.claim_post(key, outcome.investigation.id, owner="w", lease=place._lease)
    store.record_post(key, "C0INCIDENTS/1.000001")
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(place.answer(outcome))
    assert raised.value.retryable, raised.value


def test_pagerduty_is_asked_again(nonsense: LocalServer, store: Store) -> None:
    given = {"api_token": "key", "from_email": "oncall@example.com", "api_url": nonsense.url}
    place, outcome = (
        PagerDutyReplies(settings(pagerduty=given), store, owner="w"),
        an_outcome(store),
    )
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(place.answer(outcome))
    assert raised.value.retryable, raised.value
    assert store.posts(outcome.investigation.id) == {}


@pytest.mark.parametrize("call", ["find", "create"])
def test_a_note_is_neither_missed_nor_believed(
    nonsense: LocalServer, store: Store, call: str
) -> None:
    given = {"api_token": "key", "from_email": "oncall@example.com", "api_url": nonsense.url}
    calls = PagerDutyCalls(settings(pagerduty=given).pagerduty, Pace())
    with pytest.raises(ConnectorError) as raised:
        getattr(calls, call)("/incidents/PINC1/notes", "text")
    assert raised.value.retryable, raised.value
