"""Each alert source is declared once: what reads the list, and sources of other packages."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.alert_source import WebhookSource
from faultline.bot.intake.alert_sources import alert_sources, built_in_sources
from faultline.bot.policy.priority import LOW, URGENT
from faultline.bot.processes.check import all_checks
from faultline.bot.processes.server import build_app
from faultline.bot.runtime.measures import REGISTRY
from faultline.bot.settings import Settings, load_settings
from faultline.bot.settings.alert_sources import BUILT_IN
from faultline.bot.store.databases import open_cases, open_store
from faultline.bot.store.store import Store
from tests.bot.intake.conftest import (
    AM_TOKENS,
    Senders,
    alertmanager_alert,
    alertmanager_group,
    only,
    serving,
)
from tests.bot.intake.plugins import InstalledPackages
from tests.docs.test_extending import example

TOKEN = "a-token-that-nobody-guesses"
OPSGENIE = example("An alert source")
ALERT = {
    "action": "Create",
    "alert": {"alertId": "a-1", "message": "Checkout is slow", "priority": "P1"},
}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledPackages]:
    installed = InstalledPackages(tmp_path / "packages", monkeypatch)
    yield installed
    installed.remove()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"FAULTLINE_STORE__DIRECTORY": str(tmp_path / "state")}


def app_of(settings: Settings) -> tuple[Starlette, Store]:
    store = open_store(settings)
    return build_app(settings, store, open_cases(settings)), store


def post(client: httpx.Client, token: str | None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return client.post("/webhooks/opsgenie", content=json.dumps(ALERT), headers=headers)


def inbound(settings: Settings) -> tuple[bool, str]:
    checks = asyncio.run(all_checks(settings))
    (found,) = [check for check in checks if check.name == "inbound"]
    return found.ok, found.line


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_source_is_listed_under_its_own_name() -> None:
    assert {source.name for source in built_in_sources()} == set(BUILT_IN)
    for source in built_in_sources():
        assert source.paths
        assert set(source.required) <= set(source.settings.model_fields)
        assert Settings.model_fields[source.section].annotation is source.settings


def test_an_installed_source_takes_alerts_and_is_named_wherever_sources_are(
    packages: InstalledPackages, environ: dict[str, str]
) -> None:
    packages.install("opsgenie", OPSGENIE)
    settings = load_settings(environ=environ | {"FAULTLINE_OPSGENIE__WEBHOOK_TOKENS": TOKEN})
    assert pickle.loads(pickle.dumps(settings)) == settings
    refused = counted("faultline_webhooks_total", source="opsgenie", outcome="signature")
    started = counted("faultline_alerts_total", source="opsgenie", outcome="started")
    app, store = app_of(settings)
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5000)) as client:
        assert post(client, None).status_code == 401
        assert post(client, "another").status_code == 401
        assert not store.latest()
        assert post(client, TOKEN).json()["outcome"] == "started"
        assert post(client, TOKEN).json()["outcome"] == "duplicate"
    alert = only(store).alert
    assert (alert.source, alert.title) == ("opsgenie", "Checkout is slow")
    # Only requests that the source refused are counted under "signature".
    signature = counted("faultline_webhooks_total", source="opsgenie", outcome="signature")
    assert signature == refused + 2
    assert counted("faultline_alerts_total", source="opsgenie", outcome="started") == started + 1
    assert "opsgenie" in app.state.request_labels
    assert inbound(settings) == (True, "Opsgenie webhooks")
    store.engine.dispose()


def test_without_its_secret_it_answers_404_with_the_setting_and_the_pages_say_so(
    packages: InstalledPackages, environ: dict[str, str]
) -> None:
    packages.install("opsgenie", OPSGENIE)
    settings = load_settings(environ=environ)
    app, store = app_of(settings)
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5000)) as client:
        answer = post(client, TOKEN)
        page = client.get("/").text
    store.engine.dispose()
    assert answer.status_code == 404
    assert "FAULTLINE_OPSGENIE__WEBHOOK_TOKENS" in answer.text
    assert "Opsgenie webhooks" in page
    assert "/webhooks/opsgenie" in page
    ok, line = inbound(settings)
    assert not ok
    assert line.startswith("no alert source configured")


def test_its_section_is_validated_and_its_secret_is_refused_in_the_file(
    packages: InstalledPackages, tmp_path: Path
) -> None:
    packages.install("opsgenie", OPSGENIE)
    file = tmp_path / "faultline.toml"
    for text, expected in {
        "[opsgenie]\ntokens = ['x']": "opsgenie.tokens: no such setting",
        "[opsgenie]\nwebhook_tokens = ['x']": "opsgenie.webhook_tokens: is a secret",
        "[opsgeni]\nwebhook_tokens = ['x']": "opsgeni: no such section of the settings",
        "[cloudwatch]\nsns_topics = ['x']": "cloudwatch: no such section of the settings",
    }.items():
        file.write_text(text)
        with pytest.raises(SettingsError) as raised:
            load_settings(file, {})
        assert str(raised.value).startswith(expected)


def test_alert_rules_may_name_it(packages: InstalledPackages, tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text("[[alerts.rules]]\nsource = ['opsgenie']\nseverity = ['P5']")
    with pytest.raises(SettingsError, match="'opsgenie' is none of alertmanager"):
        load_settings(file, {})
    packages.install("opsgenie", OPSGENIE)
    assert load_settings(file, {}).alerts.rules[0].source == ("opsgenie",)


BROKEN = {
    "missing": ("import not_installed", "No module named 'not_installed'"),
    "empty": ("OTHER = 1", "has no attribute 'ALERT_SOURCE'"),
    "number": ("ALERT_SOURCE = 7", "is a int"),
    "renamed": (OPSGENIE, "declares it under the name 'opsgenie'"),
    "keyless": (
        OPSGENIE.replace("webhook_tokens: Secrets = ()", "webhook_tokens: Secrets").replace(
            'name="opsgenie"', 'name="keyless"'
        ),
        "a key of its settings has no default",
    ),
    "pathless": (
        OPSGENIE.replace('name="opsgenie",', 'name="pathless", endpoint="sentry",'),
        "/webhooks/sentry is already the path of sentry",
    ),
    "server": (
        OPSGENIE.replace('name="opsgenie"', 'name="server"'),
        "Faultline already has a section [server]",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_that_cannot_be_used_is_one_clear_line(
    packages: InstalledPackages, environ: dict[str, str], name: str
) -> None:
    code, reason = BROKEN[name]
    packages.install(name, code)
    with pytest.raises(SettingsError) as raised:
        alert_sources()
    said = str(raised.value)
    assert said.startswith(f"{name}: ")
    assert f"faultline-{name} 1.2" in said
    assert reason in said
    assert "\n" not in said
    ok, line = inbound(load_settings(environ=environ))
    assert not ok
    assert reason in line


def test_a_source_of_ours_cannot_be_replaced(packages: InstalledPackages) -> None:
    code = OPSGENIE.replace('name="opsgenie"', 'name="sentry", shared_section="other"')
    packages.install("other", code, {"sentry": "faultline_other:ALERT_SOURCE"})
    with pytest.raises(SettingsError, match="an alert source with that name already exists"):
        alert_sources()


@pytest.mark.parametrize(("severity", "priority"), [("yellow", LOW), ("critical", URGENT)])
def test_a_source_may_bring_words_for_priorities(
    settings: Settings, sqlite_store: Store, severity: str, priority: int
) -> None:
    (found,) = [source for source in built_in_sources() if source.name == "alertmanager"]
    assert isinstance(found, WebhookSource)
    source = replace(found, priority_words={"yellow": LOW})
    alert = alertmanager_alert()
    alert["labels"]["severity"] = severity
    with serving(settings, store_accept(sqlite_store), sources=[source]) as base:
        senders = Senders(base, sqlite_store)
        senders.alertmanager(alertmanager_group(alert), authorization=f"Bearer {AM_TOKENS[0]}")
        senders.client.close()
    assert only(sqlite_store).priority == priority
