"""Alerts in Slack are recognised by their shape, whatever tool posted them; other messages start
nothing."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.bot.intake.slack_alerts import read_message
from faultline.bot.intake.slack_messages import PassedOver, watched
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves, slack_time
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings, ChannelSettings
from faultline.bot.store.passed_over import count_passed_over, passed_over_messages
from faultline.bot.store.store import Store
from faultline.bot.store.visibility import ALL, NOTHING, Visibility
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.slack import SlackSettings
from tests.bot.intake.conftest import WATCHED, bot_message, slack_event
from tests.bot.intake.slack_layouts import HELD_BACK, LAYOUTS, Layout, box
from tests.bot.intake.slack_unforeseen_layouts import UNFORESEEN

TS = "1795865284.000100"
SETTINGS = Settings(services={"checkout": ServiceSettings(), "payments-api": ServiceSettings()})


def problems(layout: Layout) -> list[str]:
    """What is read wrongly."""
    sender = layout.name.partition(",")[0]
    message = Message.model_validate(
        {"ts": TS, "bot_id": "B0X", "username": sender, **layout.message}
    )
    now = slack_time(TS)
    assert now is not None
    alert = read_message(message, SETTINGS, now=now).alert
    if alert is None or layout.status is None:
        return [] if alert is layout.status else [f"an alert: {alert}"]
    pairs = [("status", layout.status, alert.status)]
    if layout.status == "firing":
        pairs += [("service", layout.service, alert.service)]
        pairs += [("severity", layout.severity, alert.severity)] if layout.severity else []
    wrong = [f"{name}: {right} is read as {read}" for name, right, read in pairs if right != read]
    if layout.title not in alert.title:
        wrong.append(f"title: {alert.title}")
    return wrong


@pytest.mark.parametrize(
    "layout", [*LAYOUTS, *HELD_BACK, *UNFORESEEN], ids=lambda layout: layout.name
)
def test_a_message_is_read_by_its_shape(layout: Layout) -> None:
    assert not problems(layout)


def passed_over(**envelope: Any) -> str:
    """Why an alert of this envelope starts nothing; "" where it does."""
    apps = envelope.pop("apps", ())
    channel = ChannelSettings(apps=apps)
    settings = SETTINGS.model_copy(
        update={
            "slack": SlackSettings(alert_channels=(WATCHED,)),
            "alerts": AlertSettings(channels={WATCHED: channel} if apps else {}),
        }
    )
    message = bot_message(username="Datadog", app_id="A0DD", **envelope.pop("message", {}))
    event = Envelope.model_validate({**slack_event(message), **envelope})
    now = slack_time(TS)
    assert now is not None
    decision = watched(event, Ourselves(), settings, now=now)
    return decision.reason if isinstance(decision, PassedOver) else ""


def test_apps_of_the_workspace_start_investigations() -> None:
    assert passed_over() == ""
    assert passed_over(message={"bot_profile": {"team_id": "T1"}}) == ""


@pytest.mark.parametrize(
    "message", [{"bot_profile": {"team_id": "T9"}}, {"user_team": "T9"}, {"source_team": "T9"}]
)
def test_apps_of_other_workspaces_start_nothing_unless_named_by_id(message: dict[str, Any]) -> None:
    assert passed_over(message=message) == "an app of another workspace"
    assert passed_over(message=message, apps=("Datadog",)) == "an app of another workspace"
    assert passed_over(message=message, apps=("A0DD",)) == ""


def test_in_a_shared_channel_an_app_has_to_show_that_it_is_ours() -> None:
    assert passed_over(is_ext_shared_channel=True) == "an app of another workspace"
    assert passed_over(is_ext_shared_channel=True, message={"team": "T1"}) == ""


def test_a_channel_may_name_its_apps() -> None:
    assert passed_over(apps=("datadog",)) == ""
    assert passed_over(apps=("B0AM",)) == ""
    assert "do not name" in passed_over(apps=("Grafana",))


def test_passed_over_messages_are_counted_with_an_example(sqlite_store: Store) -> None:
    engine = sqlite_store.engine
    for text in ("Lunch?", "token=xoxb-1234567890-abcdefghijkl is for lunch"):
        count_passed_over(engine, WATCHED, "B0X", "Lunchbot", "chat", "text", text)
    (row,) = passed_over_messages(engine, ALL)
    assert (row.channel, row.app, row.count, row.reason) == (WATCHED, "Lunchbot", 2, "chat")
    assert "abcdefghijkl" not in row.example
    assert passed_over_messages(engine, NOTHING) == []
    (hidden,) = passed_over_messages(engine, Visibility(channels=frozenset()))
    assert hidden.example == ""


@pytest.mark.parametrize(
    "text", ["[" * 4000, "a=" * 2000, "is down " * 500, ": " * 2000, "<" * 4000, "down: x-" * 500]
)
def test_a_hostile_text_is_read(text: str) -> None:
    layout = Layout("Mallory", "", {"text": text, **box(text, "danger", text=text)})
    assert problems(layout) is not None
