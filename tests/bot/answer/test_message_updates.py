"""What is posted and checked again after an investigation ended, and the digest of quiet hours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.message_updates import MessageUpdates
from faultline.bot.answer.targets.slack.message import MAX_LINES, digest_message
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings, ChannelSettings
from faultline.bot.store.messages import DueDigest
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.slack import SlackSettings

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SERVICES = {"checkout": ServiceSettings(depends_on=("payments",)), "payments": ServiceSettings()}


class Digests(SlackReplies):
    """Keeps what digests it posts; refuses while `problem` is set."""

    def __init__(self, store: Store) -> None:
        given = SlackSettings(bot_token="xoxb-1", channel="C1")
        super().__init__(Settings(slack=given), store, owner="w")
        self.posted: list[tuple[str, int]] = []
        self.problem: ConnectorError | None = None

    async def post_digest(
        self, digest: DueDigest, investigations: Sequence[StoredInvestigation]
    ) -> None:
        if self.problem:
            raise self.problem
        self.posted.append((digest.channel, len(investigations)))


def opened(store: Store, **alerts: Any) -> Store:
    return Store(
        store.engine, policy=Policy.of(Settings(services=SERVICES, alerts=AlertSettings(**alerts)))
    )


def updates(
    store: Store, queued: list[tuple[str, ...]], slack: Digests | None = None
) -> MessageUpdates:
    def enqueue(queue: str, workflow: str, workflow_id: str, *arguments: str) -> None:
        queued.append((queue, workflow, workflow_id, *arguments))

    return MessageUpdates(store, [slack or Digests(store)], enqueue, every_s=0.1)


def answered(store: Store, service: str, title: str = "errors", *, at: datetime = NOW) -> str:
    one = Alert(source="alertmanager", title=title, service=service, started_at=at)
    investigation_id = store.accept(one, reply_to=ReplyTo("C1"), now=at).investigation_id
    assert investigation_id is not None
    store.start(investigation_id)
    store.finish(
        investigation_id,
        "done",
        verdict="cause_found",
        confidence=0.8,
        headline=f"{service} is broken",
    )
    return investigation_id


def joined(store: Store, service: str, title: str) -> None:
    store.accept(
        Alert(source="alertmanager", title=title, service=service, started_at=NOW), now=NOW
    )


def test_an_alert_that_joins_after_the_answer_has_the_message_edited_once(store: Store) -> None:
    rules, queued = opened(store), []  # type: ignore[var-annotated]
    first = answered(rules, "checkout")
    again = updates(rules, queued)
    again.look(NOW)
    assert queued == []
    joined(rules, "payments", "slow")
    again.look(NOW)
    again.look(NOW + timedelta(minutes=1))
    assert queued == [("replies-slack", "reply", f"{first}:slack:told1", first, "slack")]


def test_a_service_that_was_not_looked_at_has_it_run_again(store: Store) -> None:
    rules, queued = opened(store), []  # type: ignore[var-annotated]
    first = answered(rules, "payments")
    joined(rules, "checkout", "slow")
    again = updates(rules, queued)
    again.look(NOW)
    assert set(queued) == {("investigations", "investigate", f"{first}:again1", first)}
    rules.start(first)
    again.look(NOW)
    assert len(queued) == 1, "while it runs nothing is edited: the run itself answers"


def test_what_came_in_quiet_hours_is_not_told_alone_but_in_a_digest_once(store: Store) -> None:
    rules = opened(store, channels={"C1": ChannelSettings(quiet="22:00-07:00")})
    queued, digests = [], Digests(store)  # type: ignore[var-annotated]
    answered(rules, "payments")
    joined(rules, "payments", "slow")
    again, end = updates(rules, queued, digests), NOW + timedelta(hours=4)
    again.look(NOW)
    assert (queued, digests.posted) == ([], [])
    digests.problem = ConnectorError("slack", "chat.postMessage", "is away", retryable=True)
    again.look(end)
    digests.problem = None
    again.look(end + timedelta(seconds=5))
    assert digests.posted == [], "a channel that refused is left alone for a minute"
    again.look(end + timedelta(minutes=2))
    again.look(end + timedelta(minutes=4))
    assert digests.posted == [("C1", 1)]


def test_a_digest_lists_what_was_found_within_slacks_limits(store: Store) -> None:
    answered(store, "payments")
    [one] = store.latest()
    hostile = replace(
        one,
        headline="<!channel> *x* " * 500,
        alert=one.alert.model_copy(update={"title": "<@U1> " * 300}),
    )
    message = digest_message([one] + [hostile] * 60, "https://faultline.example")
    said = json.dumps(message.blocks)
    assert "Cause found (80 %): payments is broken" in said
    assert f"https://faultline.example/investigations/{one.id}" in said
    assert f"and {61 - MAX_LINES} more" in said
    assert len(said) < 12_000
    assert "<!channel>" not in message.text
