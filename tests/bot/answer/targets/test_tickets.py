"""A ticket is made once, on a click alone, and holds what the answer says now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.answer.message_updates import MessageUpdates
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.target_type import configured_types
from faultline.bot.answer.targets.tickets.target import TicketTarget, ticket_offers
from faultline.bot.answer.targets.tickets.tickets import Tickets
from faultline.bot.operating.installation_checks import settings_checks
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope, TicketRequests
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_hour_later,
    settings,
    some_evidence,
)
from tests.bot.answer.targets.fake_trackers import FakeTrackers

TRACKERS = ("jira_issues", "linear_issues", "github_issues", "gitlab_issues")


@pytest.fixture
def trackers() -> Iterator[FakeTrackers]:
    fake = FakeTrackers()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


def declared(name: str, given: Settings) -> TicketTarget[Any]:
    [found] = [one for one in declared_targets(given) if one.name == name]
    assert isinstance(found, TicketTarget)
    return found


def opened(name: str, trackers: FakeTrackers, store: Store) -> Tickets:
    given = settings(**trackers.sections())
    target = declared(name, given)
    client: Any = target._client()
    made = client(target, given, store, owner="w")
    assert isinstance(made, Tickets)
    return made


def answered(store: Store, **more: Any) -> StoredInvestigation:
    name = store.accept(an_alert(**more)).investigation_id or ""
    store.start(name)
    finish(store, name)
    return known(store, name)


def finish(store: Store, name: str) -> None:
    headline = "payments v2 breaks checkout"
    store.finish(name, "done", verdict="cause_found", confidence=0.9, headline=headline)


def known(store: Store, name: str) -> StoredInvestigation:
    found = store.get(name)
    assert found is not None
    return found


def outcome(investigation: StoredInvestigation, headline: str = "payments breaks it") -> Outcome:
    report = a_report(headline=headline)
    return Outcome(investigation, Answer(a_diagnosis(), report, some_evidence(), [a_gap()], None))


def asked(store: Store, target: str, **more: Any) -> StoredInvestigation:
    investigation = answered(store, **more)
    TicketRequests(store.engine).ask(investigation.id, target)
    return known(store, investigation.id)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_ticket_is_made_once_and_then_holds_each_new_answer(
    name: str, trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened(name, trackers, store)
    investigation = asked(store, name)

    async def story() -> None:
        await tickets.answer(outcome(investigation, "payments v2 breaks checkout"))
        await tickets.answer(outcome(investigation, "it was the database"))

    asyncio.run(story())
    [issue] = trackers.issues
    first, second = issue.versions
    assert "payments v2 breaks checkout" in first.get("title", first.get("summary", ""))
    assert "it was the database" in second.get("title", second.get("summary", ""))
    assert f"https://faultline.example.com/investigations/{investigation.id}" in issue.text
    given = settings(**trackers.sections())
    [offer] = [one for one in ticket_offers(investigation, store, given) if one.title]
    assert offer.target == name
    assert offer.title.lstrip("#OPS-") == "1"
    assert offer.url.startswith("http")
    assert offer.label == f"Update the {offer.noun}"


@pytest.mark.parametrize("name", TRACKERS)
def test_a_ticket_whose_making_was_not_confirmed_is_found_and_not_made_again(
    name: str, trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened(name, trackers, store)
    investigation = asked(store, name)
    trackers.lose_answers = 1
    with pytest.raises(ConnectorError) as failed:
        asyncio.run(tickets.answer(outcome(investigation)))
    assert failed.value.retryable
    an_hour_later(store)
    asyncio.run(tickets.answer(outcome(investigation)))
    assert len(trackers.issues) == 1
    assert len(trackers.issues[0].versions) == 2, "the found one is brought up to date"


@pytest.mark.parametrize("name", TRACKERS)
def test_two_workers_make_one_ticket(name: str, trackers: FakeTrackers, store: Store) -> None:
    investigation = asked(store, name)
    one, other = (opened(name, trackers, store) for _ in range(2))

    async def both() -> None:
        await asyncio.gather(*(each.answer(outcome(investigation)) for each in (one, other)))

    asyncio.run(both())
    assert len(trackers.issues) == 1


@pytest.mark.parametrize("name", TRACKERS)
def test_without_a_click_nothing_is_made(name: str, trackers: FakeTrackers, store: Store) -> None:
    tickets = opened(name, trackers, store)
    investigation = answered(store)
    assert not tickets.expects_answer(investigation)
    asyncio.run(tickets.answer(outcome(investigation)))
    asyncio.run(tickets.announce(investigation))
    assert trackers.requests == []


@pytest.mark.parametrize("name", TRACKERS)
def test_a_refusal_is_not_tried_again_and_the_next_click_may(
    name: str, trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened(name, trackers, store)
    investigation = asked(store, name)
    trackers.refuse_with = 403
    with pytest.raises(ConnectorError) as refused:
        asyncio.run(tickets.answer(outcome(investigation)))
    assert not refused.value.retryable
    with pytest.raises(FaultlineError, match="403"):
        asyncio.run(declared(name, settings(**trackers.sections())).check(tickets._settings))
    trackers.refuse_with = None
    asyncio.run(tickets.answer(outcome(investigation)))
    assert len(trackers.issues) == 1


@pytest.mark.parametrize("name", TRACKERS)
def test_check_says_who_we_are(name: str, trackers: FakeTrackers) -> None:
    given = settings(**trackers.sections())
    assert asyncio.run(declared(name, given).check(given))


def test_a_further_investigation_shares_the_ticket_only_when_somebody_asks(
    trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened("jira_issues", trackers, store)
    first = asked(store, "jira_issues")
    asyncio.run(tickets.answer(outcome(first, "the first answer")))
    name, _ = FollowUps(store.engine).start(
        first, FollowUpScope(), key="k", question="wider", who="ann", reply_to=first.reply_to
    )
    store.start(name)
    finish(store, name)
    further = known(store, name)
    assert not tickets.expects_answer(further), "the wish was for another answer"
    TicketRequests(store.engine).ask(name, "jira_issues")
    asyncio.run(tickets.answer(outcome(known(store, name), "the further answer")))
    [issue] = trackers.issues
    assert "the further answer" in issue.fields["summary"]


def test_a_click_and_a_made_ticket_are_due_at_the_worker(
    trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened("github_issues", trackers, store)
    queued: list[tuple[str, ...]] = []
    updates = MessageUpdates(store, [tickets], lambda *job: queued.append(job), every_s=1)
    later = datetime.now(UTC) + timedelta(minutes=1)
    investigation = answered(store)
    updates.look(later)
    assert queued == []
    TicketRequests(store.engine).ask(investigation.id, "github_issues")
    updates.look(later)
    assert [job[-2:] for job in queued] == [(investigation.id, "github_issues")]
    asyncio.run(tickets.answer(outcome(known(store, investigation.id))))
    updates.look(later + timedelta(minutes=1))
    assert len(queued) == 2, "other messages get its link"


HOSTILE = "@everyone closes #1 [x](http: //evil) <img src=x> `a` | /close"


@pytest.mark.parametrize("name", ["linear_issues", "github_issues", "gitlab_issues"])
def test_foreign_text_is_no_markup_mention_or_command(
    name: str, trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened(name, trackers, store)
    investigation = asked(store, name, title=HOSTILE)
    asyncio.run(tickets.answer(outcome(investigation, HOSTILE)))
    text = trackers.issues[0].fields.get("body") or trackers.issues[0].fields["description"]
    for line in text.splitlines():
        assert not line.lstrip().startswith("/")
    for wrong in ("@everyone", "#1 ", "<img", "[x]("):
        assert wrong not in text


def test_markdown_keeps_lists_and_escapes_the_rest() -> None:
    text = "Cause found: a\nWhy:\n- it is `x` #12 [F1]\n/close\nDetails: https://f.example/i/1"
    ticket = TextParts.of(text)
    assert ticket.title == "Cause found: a"
    assert ticket.page == "https://f.example/i/1"
    assert ticket.markdown.splitlines() == [
        "**Why:**",
        "",
        "- it is 'x' \\#\u206012 \\[F1\\]",
        "",
        "\u2060/close",
        "",
        "[The whole answer, with its evidence](https://f.example/i/1)",
    ]


def test_jira_gets_a_document_in_which_nothing_is_markup(
    trackers: FakeTrackers, store: Store
) -> None:
    tickets = opened("jira_issues", trackers, store)
    asyncio.run(tickets.answer(outcome(asked(store, "jira_issues"))))
    document = trackers.issues[0].fields["description"]
    assert (document["type"], document["version"]) == ("doc", 1)
    assert {node["type"] for node in document["content"]} == {"paragraph", "bulletList"}
    assert trackers.issues[0].fields["issuetype"] == {"name": "Task"}


def test_nothing_is_offered_by_default_and_a_server_offers_without_the_token(
    trackers: FakeTrackers, store: Store
) -> None:
    investigation = answered(store)
    assert ticket_offers(investigation, store, settings()) == ()
    sections = trackers.sections()
    for own in sections.values():
        del own["token"]
    server = settings(**sections)
    assert [one.target for one in ticket_offers(investigation, store, server)] == list(TRACKERS)
    assert configured_types(server) == []
    assert any("no token for them" in one.what for one in settings_checks(server))


def test_trackers_alone_post_no_answer() -> None:
    alone = settings(**FakeTrackers(url="http://127.0.0.1:9").sections())
    assert any("answers are posted nowhere" in one.what for one in settings_checks(alone))


def test_while_it_is_investigated_nobody_is_promised_a_ticket(store: Store) -> None:
    investigation = answered(store)
    store.start(investigation.id)
    assert not TicketRequests(store.engine).ask(investigation.id, "jira_issues")
    assert known(store, investigation.id).reply_to.other_addresses == {}
    finish(store, investigation.id)
    assert TicketRequests(store.engine).ask(investigation.id, "jira_issues")


def test_the_wish_survives_a_new_run_of_the_same_investigation(
    trackers: FakeTrackers, store: Store
) -> None:
    investigation = asked(store, "gitlab_issues")
    assert opened("gitlab_issues", trackers, store).expects_answer(
        replace(investigation, status="running")
    )
