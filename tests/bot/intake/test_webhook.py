"""The generic webhook: anybody's JSON becomes alerts, or one refusal that names the expression."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.signatures import Refused
from faultline.bot.intake.sources.webhook import read_webhook
from faultline.bot.settings import Settings, load_settings
from faultline.bot.settings.webhook import WebhookSettings
from faultline.bot.store.store import Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import Senders
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(services={"checkout": ServiceSettings(aliases=("web-01",))})
OWN = WebhookSettings(
    items="alerts",
    title="name",
    id="key",
    state="status",
    service="tags.service",
    environment="tags.env",
    starts_at="since",
    url="link",
    labels="tags",
)
ONE = {
    "name": "Slow",
    "key": "k1",
    "status": "FIRING",
    "since": 1_795_168_800,
    "link": "https://mon.example/1",
    "tags": {"service": "web-01", "env": "prod"},
}
ZABBIX = {
    "name": "Disk full",
    "event_id": "77",
    "event_value": "1",
    "event_update_status": "0",
    "host": "web-01",
    "service": "*UNKNOWN*",
    "environment": "{EVENT.TAGS.environment}",
    "severity": "High",
    "trigger_id": "5",
}
NAGIOS = {
    "type": "PROBLEM",
    "host": "web-01",
    "check": "HTTP",
    "state": "CRITICAL",
    "output": "timeout",
    "service": "$_SERVICEFAULTLINE$",
}

ANY = st.fixed_dictionaries({}, optional=dict.fromkeys(ONE | ZABBIX | NAGIOS, JSON))


def read(payload: Any, own: WebhookSettings = OWN, now: datetime = NOW) -> list[Arrival]:
    body = json.dumps(payload).encode()
    found = read_webhook(body, SETTINGS, own, sender="mon", now=now)
    assert not isinstance(found, Ignored), found
    return found


def test_each_item_is_an_alert_by_the_expressions() -> None:
    first, second = read({"alerts": [ONE, ONE | {"key": "k2", "status": "resolved"}]})
    assert (first.alert.title, first.alert.status, second.alert.status) == (
        "Slow",
        "firing",
        "resolved",
    )
    assert first.alert.service == "checkout"
    assert first.alert.labels["environment"] == "prod"
    assert first.alert.links[0].url == "https://mon.example/1"
    assert first.alert.fingerprint != second.alert.fingerprint


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-20T09:20:00Z",
        1_795_166_400,
        "1795166400000",
        1_795_166_400e6,
        1_795_166_400 * 10**9,
    ],
)
def test_times_are_iso_or_of_any_unit_since_1970(time: Any) -> None:
    (found,) = read({"alerts": [ONE | {"since": time}]})
    assert found.alert.started_at == datetime(2026, 11, 20, 9, 20, tzinfo=UTC)


def test_a_retry_is_a_duplicate_and_a_repetition_is_not() -> None:
    (sent,), (retried,), (later,) = (
        read({"alerts": [ONE]}, now=NOW + timedelta(seconds=s)) for s in (0, 30, 4 * 3600)
    )
    assert sent.delivery == retried.delivery != later.delivery
    assert sent.alert.fingerprint == later.alert.fingerprint


@pytest.mark.parametrize("label", ["env", "namespace", "cluster"])
def test_equal_alerts_of_two_places_are_two_where_the_sender_names_none(label: str) -> None:
    unnamed = {"name": "Slow", "status": "FIRING", "tags": {"service": "web-01"}}
    bodies = [unnamed | {"tags": {"service": "web-01", label: name}} for name in ("a", "b", "a")]
    first, second, again = read({"alerts": bodies})
    assert first.alert.fingerprint == again.alert.fingerprint != second.alert.fingerprint


@pytest.mark.parametrize(
    ("preset", "problem", "end", "title", "unchanged"),
    [
        ("zabbix", ZABBIX, {"event_value": "0"}, "Disk full", {"event_update_status": "1"}),
        (
            "nagios",
            NAGIOS,
            {"type": "RECOVERY", "state": "OK"},
            "HTTP on web-01 is CRITICAL",
            {"type": "ACKNOWLEDGEMENT"},
        ),
    ],
)
def test_presets_read_problems_and_their_ends_and_ignore_updates(
    preset: Any, problem: dict[str, str], end: dict[str, str], title: str, unchanged: dict[str, str]
) -> None:
    own = WebhookSettings(preset=preset)
    (firing,), (resolved,) = read(problem, own), read(problem | end, own)
    assert (firing.alert.title, firing.alert.service) == (title, "checkout")
    assert (firing.alert.status, resolved.alert.status) == ("firing", "resolved")
    assert firing.alert.fingerprint == resolved.alert.fingerprint
    assert "environment" not in firing.alert.labels
    body = json.dumps(problem | unchanged).encode()
    assert isinstance(read_webhook(body, SETTINGS, own, sender="", now=NOW), Ignored)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": None}, "title (name)"),
        ({"name": {"secret": "hunter2"}}, "title (name)"),
        ({"status": "hunter2"}, "state (status)"),
        ({"since": "hunter2"}, "starts_at (since)"),
        ({"since": 10**400}, "starts_at (since)"),
        ({"tags": ["hunter2"]}, "labels (tags)"),
    ],
)
def test_a_refusal_names_the_expression_and_nothing_that_was_sent(change: Any, named: str) -> None:
    with pytest.raises(Refused) as refused:
        read({"alerts": [ONE, ONE | change]})
    assert str(refused.value).startswith(named)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b"[" * 40 + b"]" * 40, b"{}"])
def test_bodies_of_no_such_form_are_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_webhook(body, SETTINGS, OWN, sender="", now=NOW)


def test_too_many_alerts_are_refused_and_not_cut() -> None:
    with pytest.raises(Refused) as refused:
        read({"alerts": [ONE] * 1_001})
    assert refused.value.status == 413


@examples(max_examples=150)
@given(ANY, st.booleans())
def test_any_values_give_alerts_or_one_refusal(one: Any, nagios: bool) -> None:
    sent_back: list[int] = []
    for own in (OWN, WebhookSettings(preset="nagios" if nagios else "zabbix")):
        body = json.dumps({"alerts": [one]} if own.items else one).encode()
        try:
            found = read_webhook(body, SETTINGS, own, sender="", now=NOW)
        except Refused as refused:
            sent_back.append(refused.status)
            continue
        for arrival in [] if isinstance(found, Ignored) else found:
            arrival.alert.model_dump_json().encode()
    assert set(sent_back) <= {400}


@pytest.mark.parametrize("expression", ["a.[", "a" * 501, "(" * 499])
def test_a_wrong_expression_names_the_setting_at_start(tmp_path: Path, expression: str) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(f'[[webhook]]\nname = "mon"\ntitle = "{expression}"\n')
    with pytest.raises(SettingsError, match=r"webhook.mon.title"):
        load_settings(file, {})


def test_a_wrong_token_or_signature_is_refused(
    serve: Callable[..., Senders], sqlite_store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(
        '[[webhook]]\nname = "zbx"\npreset = "zabbix"\n'
        '[[webhook]]\nname = "own"\ntitle = "name"\nsignature_header = "X-Sign"\n'
        'signature_prefix = "sha256="\n'
    )
    environ = {"FAULTLINE_WEBHOOK__ZBX__TOKENS": "t0ken", "FAULTLINE_WEBHOOK__OWN__TOKENS": "key"}
    bot = serve(sqlite_store, load_settings(file, environ))
    body = json.dumps(ZABBIX).encode()
    sign = "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()

    def status(headers: dict[str, str]) -> int:
        return bot.post("/webhooks/webhook", body, headers).status_code

    assert status({"authorization": "Bearer t0ken"}) == 202
    assert status({"x-sign": sign}) == 202
    # The key of a signature is no token, and the token no signature.
    wrong = (
        {},
        {"authorization": "Bearer key"},
        {"x-sign": sign[:-1] + "x"},
        {"x-sign": sign.removeprefix("sha256=")},
    )
    assert [status(one) for one in wrong] == [401] * 4
