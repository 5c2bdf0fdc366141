"""Webhooks of other systems become changes, by the expressions of docs/report-changes.md."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import ChangeBatch
from faultline.bot.intake.reported_changes import store_keep
from faultline.bot.intake.routes import intake_routes
from faultline.bot.intake.signatures import Refused, hmac_sha256
from faultline.bot.intake.sources.webhook import read_changes
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.settings.webhook import WebhookSettings
from faultline.bot.store.changes import ReportedChange, ReportedChanges
from faultline.bot.store.store import Accepted, Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.loopback.server import serve_in_thread

PAGE = Path(__file__).resolve().parents[3] / "docs/report-changes.md"
NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(services={"checkout": ServiceSettings(aliases=("Hello-World",))})
# The audit log entry of LaunchDarkly's OpenAPI document, which its webhooks send.
FLAG = {
    "_links": {"site": {"href": "https://app.launchdarkly.com/default/production/features/pay"}},
    "_id": "1234a56b7c89d012345e678f",
    "date": 1_795_168_500_000,
    "kind": "flag",
    "name": "Example feature flag",
    "titleVerb": "turned on the flag",
    "title": "Ariel Flores turned on the flag Example feature flag in Production",
    "member": {"email": "ariel@acme.com"},
    "target": {"resources": ["proj/default:env/production:flag/pay"]},
}
OWN = WebhookSettings(
    maps_to="changes",
    items="runs",
    only="done",
    id="id",
    title="name",
    service="service",
    kind="kind",
    starts_at="at",
    files="files",
)
RUN = {"done": True, "id": 7, "name": "Release 7", "service": "checkout", "kind": "Config"}


def on_the_page(name: str) -> dict[str, Any]:
    """The table of that name in the page's examples."""
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL):
        (table,) = tomllib.loads(block)["webhook"]
        if table["name"] == name:
            return dict(table)
    raise AssertionError(name)


def mapping(name: str) -> WebhookSettings:
    return WebhookSettings.model_validate(
        {key: value for key, value in on_the_page(name).items() if key != "name"}
    )


def read(payload: Any, own: WebhookSettings = OWN, sender: str = "ci") -> list[ReportedChange]:
    found = read_changes(json.dumps(payload).encode(), SETTINGS, own, sender=sender, now=NOW)
    assert isinstance(found, ChangeBatch), found
    return list(found.changes)


def test_a_deployment_on_github_is_a_change_of_the_commit(shared: Path) -> None:
    payload = json.loads((shared / "webhooks/github/deployment_status.event.json").read_text())
    (change,) = read(payload, mapping("github"), "github")
    assert (change.service, change.kind) == ("checkout", "deploy")
    assert change.title == "Deploy master to production"
    assert change.at == datetime(2019, 5, 15, 15, 20, 55, tzinfo=UTC)
    assert change.id == "github/145988746"
    assert change.author == "Codertocat"
    assert change.link.endswith("/commit/f95f852bd8fca8fcc58a9a2d6c842781e32a215e")
    assert change.place == {"environment": "production"}


def test_other_events_of_github_are_ignored(shared: Path) -> None:
    for name in ("deployment.event", "push.event", "ping.event", "workflow_run.completed"):
        body = (shared / f"webhooks/github/{name}.json").read_bytes()
        found = read_changes(body, SETTINGS, mapping("github"), sender="github", now=NOW)
        assert isinstance(found, Ignored), name


def test_a_flag_of_launchdarkly_is_a_change_of_its_place() -> None:
    (change,) = read(FLAG, mapping("launchdarkly"), "ld")
    assert (change.service, change.kind, change.author) == ("checkout", "flag", "ariel@acme.com")
    assert change.at == datetime(2026, 11, 20, 9, 55, tzinfo=UTC)
    assert change.place == {"environment": "production"}
    (elsewhere,) = read(
        FLAG | {"target": {"resources": ["proj/default:env/test:flag/pay"]}},
        mapping("launchdarkly"),
    )
    assert elsewhere.place == {}


def test_only_what_counts_is_taken_and_equal_ids_of_two_senders_are_two() -> None:
    runs = {"runs": [RUN, RUN | {"id": 8, "done": False}, RUN | {"id": "9", "files": ["a", 1, ""]}]}
    first, second = read(runs)
    assert (first.id, second.id) == ("ci/7", "ci/9")
    assert (first.kind, first.at) == ("config", NOW)
    assert second.files == "a\n1"
    assert read(runs, sender="other")[0].id == "other/7"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"service": None}, "service (service) finds nothing"),
        ({"id": ""}, "id (id) finds nothing"),
        ({"name": None}, "title (name) finds nothing"),
        ({"kind": "hunter2"}, "kind (kind) is none of deploy"),
        ({"at": "hunter2"}, "starts_at (at) is not a time"),
        ({"at": "2026-11-20T10:30:00Z"}, "starts_at (at) is in the future"),
    ],
)
def test_a_refusal_names_the_expression_and_keeps_nothing(change: Any, named: str) -> None:
    with pytest.raises(Refused) as refused:
        read({"runs": [RUN, RUN | change]})
    assert str(refused.value).startswith(named)
    assert "hunter2" not in str(refused.value)


def test_more_changes_than_a_report_holds_are_refused() -> None:
    with pytest.raises(Refused) as refused:
        read({"runs": [RUN] * 101})
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"title": "a", "id": "b"}, "id and service"),
        ({"title": "a", "service": "b"}, "id and service"),
        ({"preset": "zabbix", "id": "a", "service": "b"}, "preset is for alerts"),
    ],
)
def test_a_mapping_without_what_a_change_needs_stops_the_start(table: Any, problem: str) -> None:
    environ = {"FAULTLINE_WEBHOOK__TOKENS": "t0ken"}
    with pytest.raises(SettingsError, match=problem):
        settings_of({"webhook": {"maps_to": "changes", **table}}, environ)


async def no_alert(arrival: Arrival) -> Accepted:
    raise AssertionError("a change is no alert")


@pytest.fixture
def door(sqlite_store: Store) -> Iterator[tuple[str, ReportedChanges]]:
    """The bot's address, with GitHub's and a Zabbix's table, and what it keeps."""
    tables = [
        on_the_page("github") | {"covers": {"region": "eu"}},
        {"name": "zbx", "preset": "zabbix"},
    ]
    environ = {"FAULTLINE_WEBHOOK__GITHUB__TOKENS": "key", "FAULTLINE_WEBHOOK__ZBX__TOKENS": "t"}
    settings = settings_of({"webhook": tables}, environ)
    changes = ReportedChanges(sqlite_store.engine)
    app = Starlette(routes=intake_routes(settings, no_alert, keep=store_keep(changes)))
    url, stop = serve_in_thread(app)
    yield url, changes
    stop()


def test_a_signed_delivery_that_comes_twice_is_one_change(
    door: tuple[str, ReportedChanges], shared: Path
) -> None:
    url, changes = door
    body = (shared / "webhooks/github/deployment_status.event.json").read_bytes()

    def post(key: str) -> httpx.Response:
        headers = {"x-hub-signature-256": "sha256=" + hmac_sha256(key, body)}
        return httpx.post(f"{url}/webhooks/webhook", content=body, headers=headers)

    assert post("guess").status_code == 401
    assert not changes.any()
    for _ in range(2):
        answer = post("key")
        assert answer.status_code == 202
        assert answer.json() == {"outcome": "kept", "ids": ["github/145988746"]}
    day = datetime(2019, 5, 15, tzinfo=UTC)
    (kept,) = changes.between(day, day.replace(day=16))
    assert kept.place == {"environment": "production", "region": "eu"}
