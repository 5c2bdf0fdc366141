"""A reply target that nothing in Faultline names: it posts once, has quiet hours and digests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import create_model

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.message_updates import MessageUpdates
from faultline.bot.answer.outcome import Answer, Outcome, ReplyTarget
from faultline.bot.answer.targets.message_target import MessageTarget
from faultline.bot.answer.targets.target_type import ReplyTargets, ReplyTargetType
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings, ChannelSettings
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.connectors.shared.settings.settings_types import Section
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    an_hour_later,
    some_evidence,
)

NIGHT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


class PigeonSettings(Section):
    """Pigeons."""

    loft: str | None = None
    """Where they fly to."""


class Pigeons(MessageTarget):
    """Keeps what it carries; `fault` is raised after the next message was carried."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.carried: dict[str, list[str]] = {}
        self.lofts: list[str] = []
        self.fault: Exception | None = None

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        return key if key in self.carried else None

    async def send(self, address: str, key: str, text: str) -> str:
        assert key not in self.carried, "posted twice"
        self.carried[key] = [text]
        self.lofts.append(address)
        if self.fault:
            fault, self.fault = self.fault, None
            raise fault
        return key

    async def edit(self, address: str, ref: str, text: str) -> None:
        self.carried[ref].append(text)


class PigeonPost(ReplyTargetType[PigeonSettings]):
    """What declares them."""

    name = "pigeons"
    label = "Carrier pigeons"
    settings = PigeonSettings
    needs = ("loft",)
    announces = True
    has_channels = True

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        own = self.section(settings)
        return reply_to.other_addresses.get(self.name) or (own.loft if own else None)

    def build(self, settings: Settings, store: Store, *, owner: str) -> Pigeons:
        return Pigeons(self, settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        return "fed"


def settings(**more: Any) -> Settings:
    model = create_model("Settings", __base__=Settings, pigeons=(PigeonSettings, ...))
    model.reply_target_plugins = {"pigeons": PigeonPost()}
    return model(pigeons=PigeonSettings(loft="roof"), **more)


def opened(store: Store, given: Settings) -> tuple[Store, Pigeons]:
    ours = Store(store.engine, policy=Policy.of(given))
    [target] = ReplyTargets(given, ours, owner="w")
    assert isinstance(target, Pigeons)
    return ours, target


def accepted(store: Store, title: str = "errors", **more: Any) -> StoredInvestigation:
    alert = Alert(source="t", title=title, service="checkout", started_at=NIGHT)
    found = store.get(store.accept(alert, now=NIGHT, **more).investigation_id or "")
    assert found is not None
    return found


def an_answer(headline: str = "payments v2 breaks checkout") -> Answer:
    return Answer(a_diagnosis(), a_report(headline=headline), some_evidence(), [a_gap()], None)


def test_one_message_is_announced_previewed_and_edited_into_the_answer(store: Store) -> None:
    ours, pigeons = opened(store, settings(model={"name": "m", "base_url": "http://x"}))
    investigation = accepted(ours)

    async def story(target: ReplyTarget) -> None:
        await target.announce(investigation)
        await target.announce(investigation)
        await target.preview(Outcome(investigation, an_answer("so far")))
        await target.answer(Outcome(investigation, an_answer("in the end")))
        await target.preview(Outcome(investigation, an_answer("too late")))

    asyncio.run(story(pigeons))
    [texts] = pigeons.carried.values()
    assert [text.splitlines()[0] for text in texts] == [
        "Investigating: errors",
        "Likely cause: so far",
        "Likely cause: in the end",
    ]


def test_a_preview_that_comes_while_the_answer_is_written_is_left_out(store: Store) -> None:
    ours, pigeons = opened(store, settings(model={"name": "m", "base_url": "http://x"}))
    investigation = accepted(ours)
    edit = pigeons.edit

    async def edit_with_a_late_preview(address: str, ref: str, text: str) -> None:
        pigeons.edit = edit  # type: ignore[method-assign]
        await pigeons.preview(Outcome(investigation, an_answer("so far")))
        await edit(address, ref, text)

    async def story(target: ReplyTarget) -> None:
        await target.announce(investigation)
        pigeons.edit = edit_with_a_late_preview  # type: ignore[method-assign]
        await target.answer(Outcome(investigation, an_answer("in the end")))

    asyncio.run(story(pigeons))
    [texts] = pigeons.carried.values()
    assert [text.splitlines()[0] for text in texts] == [
        "Investigating: errors",
        "Likely cause: in the end",
    ]


def test_a_message_that_arrived_though_its_request_failed_is_found(store: Store) -> None:
    ours, pigeons = opened(store, settings())
    investigation = accepted(ours)
    pigeons.fault = httpx.ReadTimeout("late")
    with pytest.raises(ConnectorError, match="gave no answer") as refused:
        asyncio.run(pigeons.announce(investigation))
    assert refused.value.retryable
    an_hour_later(store)
    asyncio.run(pigeons.announce(investigation))
    assert list(pigeons.carried) == [f"{investigation.id}:pigeons"]


def test_a_refusal_says_whether_to_try_again(store: Store) -> None:
    ours, pigeons = opened(store, settings(alerts=AlertSettings(groups="off")))
    request = httpx.Request("POST", "http://loft.example")
    for status, again in ((403, False), (429, True), (503, True)):
        investigation = accepted(ours, f"alert {status}")
        response = httpx.Response(status, request=request)
        pigeons.fault = httpx.HTTPStatusError("no", request=request, response=response)
        with pytest.raises(ConnectorError) as refused:
            asyncio.run(pigeons.announce(investigation))
        assert (refused.value.status, refused.value.retryable) == (status, again)


def test_its_channel_has_quiet_hours_and_one_digest(store: Store) -> None:
    quiet = AlertSettings(channels={"roof": ChannelSettings(quiet="22:00-07:00")})
    ours, pigeons = opened(store, settings(alerts=quiet))
    investigation = accepted(ours)
    assert investigation.quiet_until is not None
    assert not pigeons.expects_answer(investigation)
    ours.start(investigation.id)
    ours.finish(
        investigation.id, "done", verdict="cause_found", confidence=0.8, headline="it is broken"
    )
    updates = MessageUpdates(ours, [pigeons], lambda *_: None, every_s=0.1)
    updates.look(NIGHT)
    assert pigeons.carried == {}
    morning = NIGHT + timedelta(hours=5)
    pigeons.fault = httpx.ReadError("away")
    updates.look(morning)
    an_hour_later(store)
    updates.look(morning + timedelta(minutes=2))
    updates.look(morning + timedelta(minutes=4))
    assert list(pigeons.carried) == [f"{investigation.id}:pigeons-digest"]
    assert pigeons.lofts == ["roof"]
    [[text]] = pigeons.carried.values()
    assert "Cause found (80 %): it is broken" in text


def test_its_channel_has_a_rate(store: Store) -> None:
    rates = AlertSettings(groups="off", channels={"roof": ChannelSettings(per_hour=1)})
    ours, _ = opened(store, settings(alerts=rates))
    accepted(ours)
    second = Alert(source="t", title="more", service="checkout", started_at=NIGHT)
    assert ours.accept(second, now=NIGHT).outcome == "surplus"


def test_an_alert_brings_its_own_address_which_is_kept(store: Store) -> None:
    catalogue = {"checkout": ServiceSettings(), "payments": ServiceSettings()}
    ours, pigeons = opened(store, settings(services=catalogue))
    investigation = accepted(ours, reply_to=ReplyTo(other_addresses={"pigeons": "tower"}))
    assert investigation.reply_to == ReplyTo(other_addresses={"pigeons": "tower"})
    asyncio.run(pigeons.announce(investigation))
    assert pigeons.lofts == ["tower"]


def test_without_its_key_it_is_not_used(store: Store) -> None:
    given = settings().model_copy(update={"pigeons": PigeonSettings()})
    assert declared_targets(given)[-1].name == "pigeons"
    assert list(ReplyTargets(given, store, owner="w")) == []
