"""The webhooks over real HTTP, with a real store behind them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.testclient import TestClient

from faultline.bot.intake.accepting import IntakeLimits, store_accept
from faultline.bot.intake.routes import intake_routes
from faultline.bot.intake.sources.alertmanager import MAX_ALERTS, MAX_BODY_BYTES
from faultline.bot.runtime.instrumentation import ARRIVED
from faultline.bot.settings import Settings
from faultline.bot.store.store import Accepted, Arrival, Store
from tests.bot.intake.conftest import (
    PATIENT_S,
    PD_SECRETS,
    Senders,
    alertmanager_alert,
    alertmanager_group,
    only,
    pagerduty_event,
    serving,
)

Serve = Callable[..., Senders]


def outcome(response: httpx.Response) -> str:
    assert response.status_code == 202, response.text
    return str(response.json()["outcome"])


def raw_request(base: str, head: str, body: bytes) -> str:
    """Send bytes as they are; gives the status line of the answer."""
    parts = urlsplit(base)
    with socket.create_connection(
        (parts.hostname or "", parts.port or 0), timeout=10
    ) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        with contextlib.suppress(OSError):
            connection.sendall(body)
        return connection.recv(4096).split(b"\r\n")[0].decode()


def test_a_signed_incident_starts_an_investigation_and_answers_with_its_id(bot: Senders) -> None:
    response = bot.pagerduty(pagerduty_event(), webhook_id="W1")
    assert outcome(response) == "started"
    investigation = only(bot.store)
    assert response.json()["investigation_id"] == investigation.id
    assert investigation.alert.title == "Checkout errors"
    assert investigation.reply_to.pagerduty_incident == "PABC123"


def test_pagerdutys_samples_are_all_answered_202_and_only_alerts_start_anything(
    bot: Senders, shared: Path
) -> None:
    files = sorted((shared / "webhooks/pagerduty").glob("[is]*.json"))
    outcomes = {file.stem: outcome(bot.pagerduty(file.read_bytes())) for file in files}
    kept = {name: said for name, said in outcomes.items() if said != "ignored"}
    assert kept == {
        "incident.reopened": "started",
        "incident.resolved": "resolved",
        "incident.triggered": "started",
    }


def test_a_replayed_delivery_is_a_duplicate_whatever_id_its_header_claims(bot: Senders) -> None:
    assert outcome(bot.pagerduty(pagerduty_event(), webhook_id="W1")) == "started"
    assert outcome(bot.pagerduty(pagerduty_event(), webhook_id="W1")) == "duplicate"
    assert outcome(bot.pagerduty(pagerduty_event(), webhook_id="W2")) == "duplicate"
    assert bot.store.count() == 1


def test_an_incident_that_reopens_while_open_joins_and_after_its_end_is_new(bot: Senders) -> None:
    started = bot.pagerduty(pagerduty_event())
    joined = bot.pagerduty(pagerduty_event("incident.reopened", event="E2"))
    resolved = bot.pagerduty(pagerduty_event("incident.resolved", event="E3"))
    fresh = bot.pagerduty(pagerduty_event("incident.reopened", event="E4"))
    assert [outcome(r) for r in (started, joined, resolved, fresh)] == [
        "started",
        "joined",
        "resolved",
        "started",
    ]
    first, second = (r.json()["investigation_id"] for r in (started, fresh))
    assert (
        joined.json()["investigation_id"] == resolved.json()["investigation_id"] == first != second
    )
    assert bot.store.get(first).repeats == 1  # type: ignore[union-attr]


def test_a_captured_end_cannot_be_replayed_against_a_later_incident(bot: Senders) -> None:
    bot.pagerduty(pagerduty_event())
    bot.pagerduty(pagerduty_event("incident.resolved", event="E3"))
    fresh = bot.pagerduty(pagerduty_event("incident.reopened", event="E4")).json()[
        "investigation_id"
    ]
    assert (
        outcome(bot.pagerduty(pagerduty_event("incident.resolved", event="E3"), webhook_id="W9"))
        == "duplicate"
    )
    assert bot.store.get(fresh).resolved_at is None  # type: ignore[union-attr]


@pytest.mark.parametrize("secret", PD_SECRETS)
def test_both_secrets_work_during_rotation(bot: Senders, secret: str) -> None:
    assert (
        outcome(bot.pagerduty(pagerduty_event(), secret=secret, extra=f"v1={'0' * 64},"))
        == "started"
    )


def test_a_changed_byte_is_refused_in_one_word_and_nothing_is_stored(bot: Senders) -> None:
    body = json.dumps(pagerduty_event()).encode()
    signed = bot.pagerduty(body).request.headers["x-pagerduty-signature"]
    changed = bot.post(
        "/webhooks/pagerduty", body.replace(b"E1", b"E2"), {"x-pagerduty-signature": signed}
    )
    assert (changed.status_code, changed.text) == (401, "signature\n")
    wrong = bot.pagerduty(body, secret="guess")
    assert (wrong.status_code, wrong.text) == (401, "signature\n")
    assert bot.store.count() == 1


@pytest.mark.parametrize("body", [b"not json", b"[]", b"\xff", b'{"event": null}', b"[" * 100_000])
def test_signed_nonsense_from_pagerduty_is_answered_202_so_that_the_subscription_lives(
    bot: Senders, body: bytes
) -> None:
    assert outcome(bot.pagerduty(body)) == "ignored"
    assert bot.store.count() == 0


def test_a_ping_is_answered(bot: Senders) -> None:
    ping = {
        "event": {
            "id": "E",
            "event_type": "pagey.ping",
            "data": {"message": "Hello from your friend Pagey!"},
        }
    }
    assert outcome(bot.pagerduty(ping)) == "ignored"


def test_one_delivery_sent_twenty_times_at_once_starts_one_investigation(
    serve: Serve, store: Store
) -> None:
    bot = serve(store)
    with ThreadPoolExecutor(20) as pool:
        outcomes = list(
            pool.map(
                lambda n: outcome(bot.pagerduty(pagerduty_event(), webhook_id=f"W{n}")), range(20)
            )
        )
    assert sorted(outcomes) == ["duplicate"] * 19 + ["started"]
    assert store.count() == 1


def test_one_incident_told_by_twenty_events_at_once_is_one_investigation(
    serve: Serve, store: Store
) -> None:
    bot = serve(store)
    with ThreadPoolExecutor(20) as pool:
        outcomes = list(
            pool.map(lambda n: outcome(bot.pagerduty(pagerduty_event(event=f"E{n}"))), range(20))
        )
    assert sorted(outcomes) == ["joined"] * 19 + ["started"]
    assert only(store).repeats == 19


def test_alertmanagers_real_notifications_start_and_resolve(bot: Senders, shared: Path) -> None:
    firing, resolved = (
        json.loads((shared / f"webhooks/alertmanager/webhook.{state}.json").read_text())
        for state in ("firing", "resolved")
    )
    headers = firing["headers"]["Authorization"]
    assert outcome(bot.alertmanager(firing["body"], authorization=headers)) == "started"
    assert outcome(bot.alertmanager(firing["body"], authorization=headers)) == "duplicate"
    assert outcome(bot.alertmanager(resolved["body"], authorization=headers)) == "resolved"
    assert only(bot.store).resolved_at is not None


def test_a_storm_of_alerts_in_one_notification_is_stored_whole_and_its_retry_adds_nothing(
    bot: Senders,
) -> None:
    storm = alertmanager_group(*(alertmanager_alert(f"A{n}", number=n) for n in range(150)))
    first, again = bot.alertmanager(storm), bot.alertmanager(storm)
    assert [one["outcome"] for one in first.json()["alerts"]] == ["started"] * 150
    assert [one["outcome"] for one in again.json()["alerts"]] == ["duplicate"] * 150
    assert bot.store.count() == 150


def test_a_storm_that_does_not_fit_one_answer_gets_in_with_retries(
    settings: Settings, sqlite_store: Store
) -> None:
    accept = store_accept(sqlite_store)

    async def slowly(arrival: Arrival) -> Accepted:
        accepted = await accept(arrival)
        await asyncio.sleep(0.3 if accepted.outcome == "started" else 0)
        return accepted

    storm = alertmanager_group(*(alertmanager_alert(f"A{n}", number=n) for n in range(200)))
    with serving(settings, slowly, IntakeLimits(group_within_s=0.5)) as base:
        bot = Senders(base, sqlite_store)
        answers = [bot.alertmanager(storm).status_code]
        while answers[-1] == 503 and len(answers) < 30:
            answers.append(bot.alertmanager(storm).status_code)
        bot.client.close()
    assert answers[0] == 503
    assert answers[-1] == 202
    assert sqlite_store.count() == 200


def test_firing_and_resolved_alerts_of_one_group_are_told_apart(bot: Senders) -> None:
    bot.alertmanager(
        alertmanager_group(alertmanager_alert("A", number=1), alertmanager_alert("B", number=2))
    )
    mixed = bot.alertmanager(
        alertmanager_group(
            alertmanager_alert("A", number=1, status="resolved"), alertmanager_alert("C", number=3)
        )
    )
    assert [one["outcome"] for one in mixed.json()["alerts"]] == ["resolved", "started"]


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic cHJvbTp3cm9uZw=="])
def test_alertmanager_without_the_right_credentials_is_refused_unread(
    bot: Senders, authorization: str
) -> None:
    response = bot.alertmanager(
        alertmanager_group(alertmanager_alert()), authorization=authorization
    )
    assert (response.status_code, response.text) == (401, "signature\n")
    assert bot.store.count() == 0


def test_alertmanager_may_use_basic_credentials(bot: Senders) -> None:
    group = alertmanager_group(alertmanager_alert())
    assert outcome(bot.alertmanager(group, authorization="Basic cHJvbTpwYXNzdzByZA==")) == "started"


def test_an_alertmanager_body_that_cannot_be_read_is_answered_400_with_the_reason(
    bot: Senders,
) -> None:
    response = bot.alertmanager(b"{")
    assert (response.status_code, response.text) == (400, "the body is not a JSON object\n")


@pytest.mark.parametrize("path", ["/webhooks/pagerduty", "/webhooks/alertmanager", "/slack/events"])
def test_what_is_not_configured_says_which_setting_to_set(
    serve: Serve, sqlite_store: Store, path: str
) -> None:
    bot = serve(sqlite_store, Settings())
    response = bot.post(path, b"{}", {})
    assert response.status_code == 404
    assert response.text.startswith("not configured: set FAULTLINE_")
    assert response.text.count("\n") == 1


def test_only_post_is_served(bot: Senders) -> None:
    assert httpx.get(bot.base + "/webhooks/pagerduty").status_code == 405


def test_a_body_declared_too_large_is_refused_before_it_is_sent(bot: Senders) -> None:
    head = "POST /webhooks/pagerduty HTTP/1.1\nHost: x\nContent-Length: 1048577"
    assert raw_request(bot.base, head, b"").split()[1] == "413"


def test_a_body_that_grows_too_large_is_refused_while_it_is_read(
    serve: Serve, sqlite_store: Store
) -> None:
    bot = serve(sqlite_store, limits=IntakeLimits(max_body_bytes=2_000))
    head = "POST /slack/events HTTP/1.1\nHost: x\nTransfer-Encoding: chunked"
    assert raw_request(bot.base, head, (b"400\r\n" + b"x" * 1024 + b"\r\n") * 3).split()[1] == "413"


def test_the_limit_is_the_settings_limit(
    serve: Serve, settings: Settings, sqlite_store: Store
) -> None:
    small = settings.model_copy(
        update={"server": settings.server.model_copy(update={"max_body_bytes": 1024})}
    )
    bot = serve(sqlite_store, small)
    assert bot.pagerduty(b"x" * 1025).status_code == 413
    assert bot.pagerduty(b"x" * 1024).status_code == 202


def test_a_body_that_trickles_in_is_given_up(serve: Serve, sqlite_store: Store) -> None:
    bot = serve(sqlite_store, limits=IntakeLimits(body_within_s=0.2))
    head = "POST /webhooks/pagerduty HTTP/1.1\nHost: x\nContent-Length: 100"
    assert raw_request(bot.base, head, b"{").split()[1] == "408"


def test_a_sender_that_goes_away_does_no_harm(bot: Senders) -> None:
    parts = urlsplit(bot.base)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
        connection.sendall(
            b"POST /webhooks/pagerduty HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
        )
    assert outcome(bot.pagerduty(pagerduty_event())) == "started"


def test_while_the_store_stands_still_senders_are_told_to_come_back_and_nothing_is_lost(
    serve: Serve, sqlite_store: Store
) -> None:
    bot = serve(sqlite_store, limits=IntakeLimits(accept_within_s=0.3))
    with sqlite_store.engine.connect() as connection:
        connection.execute(
            text("SELECT 1")
        )  # begins a write transaction, which keeps all others out
        began = time.monotonic()
        refused = bot.pagerduty(pagerduty_event())
        assert time.monotonic() - began < 2
        connection.rollback()
    assert (refused.status_code, refused.text, refused.headers["retry-after"]) == (
        503,
        "try again\n",
        "1",
    )
    assert outcome(bot.pagerduty(pagerduty_event())) in ("started", "duplicate")
    deadline = time.monotonic() + PATIENT_S
    while bot.store.count() < 1:
        assert time.monotonic() < deadline, "the alert that was given up on is lost"
        time.sleep(0.01)
    assert bot.store.count() == 1


def test_a_store_that_fails_is_answered_503(serve: Serve, sqlite_store: Store) -> None:
    bot = serve(sqlite_store)
    with sqlite_store.engine.begin() as connection:
        connection.execute(text("DROP TABLE deliveries"))
    refused = bot.pagerduty(pagerduty_event())
    assert (refused.status_code, refused.text) == (503, "try again\n")


def test_an_answer_names_no_secret_and_no_server(bot: Senders) -> None:
    answers: list[Any] = [
        bot.pagerduty(b"x"),
        bot.pagerduty(b"x", secret="no"),
        bot.alertmanager(b"{"),
    ]
    for answer in answers:
        seen = answer.text + str(dict(answer.headers))
        assert not any(secret in seen for secret in (*PD_SECRETS, "s3cret", "passw0rd"))


def test_a_group_of_1500_alerts_above_a_megabyte_is_taken_at_once(bot: Senders) -> None:
    alerts = [alertmanager_alert(f"A{n}", number=n) for n in range(1_500)]
    for one in alerts:
        one["annotations"]["description"] = "d" * 800
    body = json.dumps(alertmanager_group(*alerts)).encode()
    assert len(body) > 1_048_576
    answer = bot.alertmanager(body)
    assert answer.status_code == 202
    assert len(answer.json()["alerts"]) == 1_500
    outcomes = {one["outcome"] for one in answer.json()["alerts"]}
    assert outcomes <= {"started", "grouped", "duplicate"}


def test_only_alertmanager_may_send_more_than_a_megabyte_and_only_with_its_token(
    bot: Senders,
) -> None:
    body = b"x" * 1_100_000
    assert bot.pagerduty(body).status_code == 413
    assert bot.alertmanager(body, authorization="Bearer wrong").status_code == 401
    assert bot.alertmanager(body).status_code == 400
    assert bot.alertmanager(b"x" * (MAX_BODY_BYTES + 1)).status_code == 413


def test_more_alerts_than_can_be_taken_are_refused_and_not_left_out(bot: Senders) -> None:
    answer = bot.alertmanager(alertmanager_group(*[{} for _ in range(MAX_ALERTS + 1)]))
    assert answer.status_code == 413
    assert "max_alerts" in answer.text
    assert bot.store.count() == 0


def test_a_request_that_its_sender_gave_up_is_dropped_before_any_work(
    settings: Settings, sqlite_store: Store
) -> None:
    limits = IntakeLimits(accept_within_s=PATIENT_S)
    app = Starlette(routes=intake_routes(settings, store_accept(sqlite_store), limits=limits))
    body = json.dumps(pagerduty_event()).encode()
    digest = hmac.new(PD_SECRETS[0].encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-pagerduty-signature": f"v1={digest}"}
    for waited, status in ((0.1, 202), (PATIENT_S + 1, 503)):

        async def late(scope: Any, receive: Any, send: Any, waited: float = waited) -> None:
            scope["state"] = {ARRIVED: time.monotonic() - waited}
            await app(scope, receive, send)

        with TestClient(late) as client:
            answer = client.post("/webhooks/pagerduty", content=body, headers=headers)
        assert answer.status_code == status


SOURCES = (
    "/webhooks/alertmanager",
    "/webhooks/pagerduty",
    "/webhooks/datadog",
    "/webhooks/azure_monitor",
    "/webhooks/sentry",
    "/slack/events",
)


def test_wrong_tokens_are_counted_over_all_sources_and_a_right_one_is_never_kept_out(
    bot: Senders,
) -> None:
    said = [
        bot.post(path, b"{}", {"authorization": f"Bearer {guess}"})
        for guess in range(5)
        for path in SOURCES
    ]
    statuses = [one.status_code for one in said if one.status_code != 404]
    assert statuses == [401] * 10 + [429] * (len(statuses) - 10)
    assert len(statuses) >= 15
    assert 0 < int(said[-1].headers["retry-after"]) <= 301 or said[-1].status_code == 404
    assert outcome(bot.alertmanager(alertmanager_group(alertmanager_alert()))) == "started"
    assert outcome(bot.pagerduty(pagerduty_event(), webhook_id="W1")) == "started"
