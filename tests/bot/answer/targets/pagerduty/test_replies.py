"""The PagerDuty note, by the real client against PagerDuty on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Claim
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets import posting
from faultline.bot.answer.targets.pagerduty.calls import TRIES
from faultline.bot.answer.targets.pagerduty.note import MAX_NOTE, bears_marker, note_text
from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies
from faultline.bot.answer.view import answer_view
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from tests.bot.answer.targets.answers import (
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    accepted,
    an_hour_later,
    an_investigation,
    settings,
    some_evidence,
)
from tests.bot.answer.targets.conftest import PagerDutyAt

INCIDENT = "PINC1"


def replies(
    at: PagerDutyAt,
    store: Store,
    *,
    owner: str = "w1",
    lease: timedelta = posting.LEASE,
    **pagerduty: Any,
) -> PagerDutyReplies:
    given = {"api_token": "key", "from_email": "oncall@example.com", "api_url": at.url, **pagerduty}
    return PagerDutyReplies(settings(pagerduty=given), store, owner=owner, lease=lease)


def an_incident(at: PagerDutyAt, store: Store) -> StoredInvestigation:
    at.pagerduty.open_incident(INCIDENT, "checkout", "checkout")
    return accepted(store, ReplyTo(pagerduty_incident=INCIDENT))


def an_answer(headline: str = "payments v2 breaks checkout") -> Answer:
    return Answer(a_diagnosis(), a_report(headline=headline), some_evidence(), [a_gap()], None)


def test_the_note_holds_the_answer_the_page_and_the_marker() -> None:
    text = note_text(
        an_investigation(),
        answer_view(
            an_investigation().alert,
            a_diagnosis(),
            a_report(),
            gaps=[a_gap()],
            evidence=some_evidence(),
        ),
        PAGE,
    )
    lines = text.splitlines()
    assert lines[:8] == [
        "Likely cause: payments v2 breaks checkout",
        "What's happening: It began at 10:14 UTC, 7 min before the alert. No symptom of "
        "checkout itself, which alerted, was found.",
        "Why:",
        "- The error ratio of payments rose 31x right after v2 [graph, finding]",
        "Do next: Roll back v2 of payments",
        "Not sure about:",
        "- Against it: db latency did not move [finding]",
        "Confidence: Likely (86 %)",
    ]
    assert lines[-2:] == [f"Details: {PAGE}", "Faultline 20260914-102100-ab12cd"]


def test_the_longest_note_stays_within_the_limit_and_keeps_its_marker() -> None:
    claims = tuple(Claim(text="x" * 9000, findings=("F1",)) for _ in range(50))
    report = a_report(headline="y" * 90_000, claims=claims)
    text = note_text(
        an_investigation(),
        answer_view(
            an_investigation().alert,
            a_diagnosis(missing=("z" * 9000,) * 40),
            report,
            gaps=[a_gap()] * 90,
        ),
        PAGE,
    )
    assert len(text) <= MAX_NOTE
    assert bears_marker(text, "20260914-102100-ab12cd")


def test_foreign_text_cannot_forge_a_marker() -> None:
    forged = "all good\nFaultline other-id"
    text = note_text(
        an_investigation(),
        answer_view(an_investigation().alert, a_diagnosis(), a_report(headline=forged), gaps=[]),
        PAGE,
    )
    assert "Faultline other-id" not in text.splitlines()


def test_the_note_is_written_once_in_the_users_name_and_then_amended(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    investigation = an_incident(pagerduty_at, store)
    place = replies(pagerduty_at, store)

    async def story() -> None:
        await place.announce(investigation)
        await place.answer(Outcome(investigation, an_answer()))
        await place.answer(Outcome(investigation, an_answer("payments v3 breaks checkout")))

    asyncio.run(story())
    [note] = pagerduty_at.pagerduty.notes
    assert note.author == "oncall@example.com"
    assert [v.splitlines()[0] for v in note.versions] == [
        "Likely cause: payments v2 breaks checkout",
        "Likely cause: payments v3 breaks checkout",
    ]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_killed_on_either_side_of_the_note_leaves_one_note(
    pagerduty_at: PagerDutyAt, store: Store, moment: str
) -> None:
    investigation = an_incident(pagerduty_at, store)
    if moment == "after":
        pagerduty_at.pagerduty.open_incident(INCIDENT, "checkout", "checkout")
        text = note_text(
            investigation,
            answer_view(investigation.alert, a_diagnosis(), a_report(), gaps=[]),
            PAGE,
        )
        headers = {"Authorization": "Token token=key", "From": "oncall@example.com"}
        url = f"{pagerduty_at.url}/incidents/{INCIDENT}/notes"
        httpx.post(url, json={"note": {"content": text}}, headers=headers).raise_for_status()
    store.claim_post(
        f"{investigation.id}:pagerduty", investigation.id, owner="dead", lease=posting.LEASE
    )
    an_hour_later(store)
    later = replies(pagerduty_at, store, owner="w2")
    asyncio.run(later.answer(Outcome(investigation, an_answer())))
    assert len(pagerduty_at.pagerduty.notes) == 1
    assert pagerduty_at.pagerduty.traffic.calls["create note"] == 1
    assert pagerduty_at.pagerduty.notes[0].content.startswith("Likely cause")


def test_a_failed_investigation_is_noted_as_failed(pagerduty_at: PagerDutyAt, store: Store) -> None:
    investigation = replace(
        an_incident(pagerduty_at, store), headline="The investigation failed: no space left"
    )
    asyncio.run(replies(pagerduty_at, store).answer(Outcome(investigation, None)))
    assert pagerduty_at.pagerduty.notes[0].content.startswith("Investigation failed: no space left")


def test_a_rate_limit_is_waited_out(pagerduty_at: PagerDutyAt, store: Store) -> None:
    investigation = an_incident(pagerduty_at, store)
    pagerduty_at.pagerduty.traffic.fail_next(1, 429, call="create note")
    asyncio.run(replies(pagerduty_at, store).answer(Outcome(investigation, an_answer())))
    assert pagerduty_at.pagerduty.traffic.calls["create note"] == 2
    assert len(pagerduty_at.pagerduty.notes) == 1


def test_the_wait_that_pagerduty_asks_for_holds_for_every_reply_of_the_process(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    investigation = an_incident(pagerduty_at, store)
    traffic = pagerduty_at.pagerduty.traffic
    traffic.fail_next(1, 429, call="incident", headers={"ratelimit-reset": "2"})
    began = time.monotonic()

    async def both() -> None:
        one, other = (replies(pagerduty_at, store, owner=owner) for owner in ("w1", "w2"))
        first = asyncio.create_task(one.answer(Outcome(investigation, an_answer())))
        await asyncio.sleep(1)
        await other.answer(Outcome(investigation, an_answer()))
        assert time.monotonic() - began >= 2
        await first

    asyncio.run(both())
    assert traffic.calls["incident"] == 3
    assert len(pagerduty_at.pagerduty.notes) == 1


@pytest.mark.parametrize("status", [429, 503, None])
def test_a_note_that_was_refused_is_written_at_the_next_try_without_a_wait(
    pagerduty_at: PagerDutyAt, store: Store, status: int | None
) -> None:
    """The lease is a minute, as is the wait for what PagerDuty might have taken."""
    investigation = an_incident(pagerduty_at, store)
    traffic = pagerduty_at.pagerduty.traffic
    url = "http://127.0.0.1:9" if status is None else pagerduty_at.url
    if status is not None:
        traffic.fail_next(TRIES if status == 429 else 1, status, call="create note")
    began = time.monotonic()
    lease = timedelta(minutes=1)
    refused = replies(pagerduty_at, store, lease=lease, api_url=url)
    with pytest.raises(ConnectorError):
        asyncio.run(refused.write(investigation, "the text"))
    asyncio.run(replies(pagerduty_at, store, lease=lease).write(investigation, "the text"))
    assert time.monotonic() - began < 30
    assert len(pagerduty_at.pagerduty.notes) == 1
    assert traffic.calls["list notes"] == 0


@pytest.mark.parametrize(
    ("given", "problem", "retryable"),
    [
        ({"api_token": "wrong"}, "the REST API key is not valid", False),
        ({"from_email": None}, "pagerduty.from_email is not set", False),
        ({"from_email": "nobody"}, "Requester User Not Found", False),
        ({"api_url": "http://127.0.0.1:9"}, "cannot be reached", True),
    ],
)
def test_pagerdutys_refusal_becomes_one_clear_error(
    pagerduty_at: PagerDutyAt, store: Store, given: dict[str, Any], problem: str, retryable: bool
) -> None:
    with pytest.raises(ConnectorError, match=problem) as raised:
        asyncio.run(
            replies(pagerduty_at, store, **given).answer(
                Outcome(an_incident(pagerduty_at, store), an_answer())
            )
        )
    assert raised.value.retryable is retryable


def test_a_server_error_is_worth_another_try_and_is_not_repeated_blindly(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    investigation = an_incident(pagerduty_at, store)
    pagerduty_at.pagerduty.traffic.fail_next(1, 502, call="create note")
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(replies(pagerduty_at, store).answer(Outcome(investigation, an_answer())))
    assert raised.value.retryable
    assert pagerduty_at.pagerduty.traffic.calls["create note"] == 1


def test_an_incident_id_that_is_a_path_is_refused(pagerduty_at: PagerDutyAt, store: Store) -> None:
    investigation = accepted(store, ReplyTo(pagerduty_incident="../users/P1"))
    with pytest.raises(ConnectorError, match="names no incident"):
        asyncio.run(replies(pagerduty_at, store).answer(Outcome(investigation, an_answer())))


def test_the_calls_and_the_loopbacks_answers_follow_pagerdutys_description(
    pagerduty_at: PagerDutyAt, store: Store, shared: Path
) -> None:
    spec = _as_json_schema(json.loads((shared / "specs" / "pagerduty-rest.prism.json").read_text()))
    seen: list[tuple[str, Any]] = []
    asyncio.run(
        replies(pagerduty_at, store).answer(Outcome(an_incident(pagerduty_at, store), an_answer()))
    )
    headers = {"Authorization": "Token token=key", "From": "oncall@example.com"}
    with httpx.Client(base_url=pagerduty_at.url, headers=headers) as client:
        path = f"/incidents/{INCIDENT}"
        note_id = pagerduty_at.pagerduty.notes[0].id
        body = {"note": {"content": "amended"}}
        seen.append(("get /incidents/{id}", client.get(path).json()))
        seen.append(("get /incidents/{id}/alerts", client.get(f"{path}/alerts").json()))
        seen.append(("get /incidents/{id}/log_entries", client.get(f"{path}/log_entries").json()))
        seen.append(
            (
                "get /incidents/{id}/related_change_events",
                client.get(f"{path}/related_change_events").json(),
            )
        )
        seen.append(("get /incidents/{id}/notes", client.get(f"{path}/notes").json()))
        seen.append(("post /incidents/{id}/notes", client.post(f"{path}/notes", json=body).json()))
        seen.append(
            (
                "put /incidents/{id}/notes/{note_id}",
                client.put(f"{path}/notes/{note_id}", json=body).json(),
            )
        )
    for call, answer in seen:
        verb, path = call.split(" ")
        described = spec["paths"][path][verb]
        good = next(r for status, r in described["responses"].items() if status.startswith("2"))
        schema = good["content"]["application/json"]["schema"]
        jsonschema.Draft7Validator({**schema, "components": spec["components"]}).validate(answer)
        if verb != "get":
            asked = described["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.Draft7Validator({**asked, "components": spec["components"]}).validate(body)


def _as_json_schema(described: Any) -> Any:
    """OpenAPI 3.0 says `nullable` where JSON Schema has a type more."""
    if isinstance(described, list):
        return [_as_json_schema(d) for d in described]
    if not isinstance(described, dict):
        return described
    out = {k: _as_json_schema(v) for k, v in described.items()}
    if out.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out
