"""Sentry's webhooks: what becomes an alert, what is ignored, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import SecretStr

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored, IntakeLimits
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.sentry import read_sentry, verify_sentry
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.settings.processes import RetentionSettings
from faultline.bot.store.store import Accepted, Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.sentry import SentrySettings
from faultline.connectors.vendors.sentry.issues import issue_of
from tests.bot.intake.conftest import Senders, only, serving

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
SECRETS = (SecretStr("old-secret"), SecretStr("new-secret"))
SETTINGS = Settings(
    alerts=AlertSettings(oldest_days=36_500),
    retention=RetentionSettings(deliveries_days=36_500),
    sentry=SentrySettings(webhook_secrets=SECRETS),
    services={"web": ServiceSettings(sentry_project="front-end"), "bar": ServiceSettings()},
)


def read(payload: Any) -> Arrival | Ignored:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return read_sentry(body, SETTINGS, now=NOW)


def alert(payload: Any) -> Alert:
    found = read(payload)
    assert isinstance(found, Arrival)
    return found.alert


def issue_webhook(action: str = "created", **given: Any) -> dict[str, Any]:
    issue = {
        "id": "4001",
        "shortId": "FRONT-END-9",
        "title": "TypeError: no",
        "culprit": "pay(cart)",
        "level": "fatal",
        "firstSeen": "2026-11-20T09:50:00.123000Z",
        "lastSeen": "2026-11-20T09:58:00Z",
        "web_url": "https://acme.sentry.io/issues/4001/",
        "project": {"slug": "front-end"},
    }
    return {"action": action, "data": {"issue": issue | given}, "installation": {"uuid": "1"}}


def test_every_sample_is_an_alert_or_ignored_with_a_reason(shared: Path) -> None:
    found = {}
    for path in sorted((shared / "webhooks/sentry").glob("*.json")):
        found[path.stem] = read(json.loads(path.read_text())["body"])
    triggered, resolved, seer = (found[k] for k in sorted(found))
    assert isinstance(triggered, Arrival)
    about = triggered.alert
    assert (about.title, about.status, about.service) == (
        "ReferenceError: heck is not defined",
        "firing",
        "web",
    )
    assert about.started_at == datetime(2019, 8, 19, 21, 6, 17, 677000, tzinfo=UTC)
    assert issue_of(about) == "1117540176"
    assert about.labels["rule"] == "Very Important Alert Rule!"
    assert isinstance(resolved, Arrival)
    assert (resolved.alert.title, resolved.alert.status, resolved.alert.service) == (
        "Too many errors",
        "resolved",
        "bar",
    )
    assert seer == Ignored("nothing to do for root_cause root_cause_completed")


def test_a_new_issue_is_an_alert_that_names_issue_project_and_page() -> None:
    about = alert(issue_webhook())
    assert (about.source, about.id, about.service, about.severity) == (
        "sentry",
        "4001",
        "web",
        "fatal",
    )
    assert about.started_at == datetime(2026, 11, 20, 9, 50, 0, 123000, tzinfo=UTC)
    assert (about.labels["issue_id"], about.labels["sentry_project"]) == ("4001", "front-end")
    assert about.labels["url"] == about.links[0].url == "https://acme.sentry.io/issues/4001/"


def test_an_issue_that_came_back_began_when_it_was_seen_last() -> None:
    assert alert(issue_webhook("unresolved")).started_at == datetime(
        2026, 11, 20, 9, 58, tzinfo=UTC
    )


def test_the_end_of_an_issue_has_the_identity_of_its_beginning() -> None:
    ended = alert(issue_webhook("resolved"))
    assert ended.status == "resolved"
    assert ended.fingerprint == alert(issue_webhook()).fingerprint


def test_a_metric_alert_keeps_its_identity_from_critical_to_resolved() -> None:
    def metric(action: str, incident: str) -> Alert:
        rule = {"id": "7", "name": "Errors", "query": "level:error", "aggregate": "count()"}
        data = {"metric_alert": {"id": incident, "alert_rule": rule, "projects": ["front-end"]}}
        return alert({"action": action, "data": data})

    begun, ended = metric("critical", "4"), metric("resolved", "4")
    assert (begun.status, begun.severity, begun.service) == ("firing", "critical", "web")
    assert (begun.signal, begun.labels["query"], begun.labels["sentry_project"]) == (
        "error_rate",
        "level:error",
        "front-end",
    )
    assert (ended.status, ended.fingerprint) == ("resolved", begun.fingerprint)


@pytest.mark.parametrize("action", ["assigned", "archived", "ignored", ""])
def test_other_actions_on_issues_are_ignored(action: str) -> None:
    assert isinstance(read(issue_webhook(action)), Ignored)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"action": "created", "data": {"issue": {"id": "../../x"}}}',
        b'{"action": "triggered", "data": {"event": []}}',
        b'{"action": "critical", "data": {"metric_alert": 5}}',
        b'{"action": "created", "data": {"error": {"issue_id": "1"}}}',
    ],
)
def test_bodies_without_an_alert_are_ignored_with_a_reason(body: bytes) -> None:
    found = read(body)
    assert isinstance(found, Ignored)
    assert found.reason


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "issue_id", "title", "datetime", "url", "project", "alert_rule"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@examples(max_examples=80)
@given(st.sampled_from(["created", "triggered", "critical", "resolved"]), JSON, JSON, JSON)
def test_any_body_is_ignored_or_an_alert(action: str, event: Any, issue: Any, metric: Any) -> None:
    found = read(
        {"action": action, "data": {"event": event, "issue": issue, "metric_alert": metric}}
    )
    assert isinstance(found, (Ignored, Arrival))


@examples(max_examples=60)
@given(st.binary(max_size=300), st.text(max_size=80))
def test_nothing_is_taken_for_signed_by_chance(body: bytes, header: str) -> None:
    with pytest.raises(BadSignature):
        verify_sentry(body, header, SECRETS)


def test_a_signature_of_any_of_the_secrets_holds_and_of_an_empty_one_does_not() -> None:
    for secret in ("old-secret", "new-secret"):
        verify_sentry(b"{}", hmac.new(secret.encode(), b"{}", hashlib.sha256).hexdigest(), SECRETS)
    with pytest.raises(BadSignature):
        verify_sentry(b"{}", hmac.new(b"", b"{}", hashlib.sha256).hexdigest(), (SecretStr(""),))


def post(senders: Senders, payload: Any, secret: str = "new-secret") -> Any:
    """As Sentry sends it."""
    body = json.dumps(payload).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "sentry-hook-resource": "issue",
        "sentry-hook-timestamp": str(int(time.time())),
        "request-id": "r",
    }
    return senders.post("/webhooks/sentry", body, headers | {"sentry-hook-signature": signature})


def test_a_signed_webhook_starts_one_investigation_and_its_repetition_none(
    serve: Callable[..., Senders], sqlite_store: Store
) -> None:
    senders = serve(sqlite_store, SETTINGS)
    first, again = post(senders, issue_webhook()), post(senders, issue_webhook())
    assert (first.status_code, first.json()["outcome"]) == (202, "started")
    assert (again.status_code, again.json()["outcome"]) == (202, "duplicate")
    assert only(sqlite_store).alert.labels["issue_id"] == "4001"


def test_a_store_that_stands_still_does_not_keep_sentry_waiting(sqlite_store: Store) -> None:
    async def never(arrival: Arrival) -> Accepted:
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    with serving(SETTINGS, never, IntakeLimits()) as base:
        senders = Senders(base, sqlite_store)
        with senders.client:
            assert post(senders, issue_webhook()).status_code == 503


def test_an_unsigned_webhook_is_refused(serve: Callable[..., Senders], sqlite_store: Store) -> None:
    senders = serve(sqlite_store, SETTINGS)
    assert post(senders, issue_webhook(), "guessed").status_code == 401
    assert senders.post("/webhooks/sentry", b"{}", {}).status_code == 401
    assert list(sqlite_store.latest()) == []


def test_without_a_secret_the_setting_is_named(
    serve: Callable[..., Senders], sqlite_store: Store
) -> None:
    answer = serve(sqlite_store, Settings()).post("/webhooks/sentry", b"{}", {})
    assert answer.status_code == 404
    assert "FAULTLINE_SENTRY__WEBHOOK_SECRETS" in answer.text
