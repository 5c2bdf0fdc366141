"""Notes on incidents that are over, merged or joined, and custom fields; by the real client against
a loopback."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.answer.message_updates import MessageUpdates
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets import posting
from faultline.bot.answer.targets.pagerduty import calls
from faultline.bot.answer.targets.pagerduty.calls import read_incident
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies
from faultline.bot.answer.targets.tickets.target import ticket_offers
from faultline.bot.answer.view import answer_view
from faultline.bot.operating.installation_checks import settings_checks
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope, TicketRequests
from faultline.bot.store.store import GroupedAlert, ReplyTo, Store, StoredInvestigation
from faultline.loopback.pagerduty import LoopbackIncident
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

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SHORT_LEASE = timedelta(seconds=1)
"""Long beside what a busy machine takes for a request."""


def replies(
    at: PagerDutyAt, store: Store, *, lease: timedelta = posting.LEASE, **pagerduty: Any
) -> PagerDutyReplies:
    given = {"api_token": "key", "from_email": "oncall@example.com", "api_url": at.url, **pagerduty}
    return PagerDutyReplies(settings(pagerduty=given), store, owner="w1", lease=lease)


def opened(at: PagerDutyAt, incident: str, **more: Any) -> LoopbackIncident:
    return at.pagerduty.open_incident(incident, "checkout is slow", "checkout", **more)


def answered(
    at: PagerDutyAt,
    store: Store,
    investigation: StoredInvestigation,
    headline: str = "payments v2",
    **pagerduty: Any,
) -> None:
    answer = Answer(a_diagnosis(), a_report(headline=headline), some_evidence(), [a_gap()], None)
    asyncio.run(replies(at, store, **pagerduty).answer(Outcome(investigation, answer)))


def pointed(at: PagerDutyAt, store: Store, investigation: StoredInvestigation) -> None:
    an_hour_later(store)
    asyncio.run(replies(at, store).point_from_joined(Outcome(investigation, None)))


def a_storm(store: Store, count: int) -> StoredInvestigation:
    members = tuple(joined(f"P{n}", n) for n in range(1, count))
    return replace(
        accepted(store, ReplyTo(pagerduty_incident="P0")), related=members, headline="payments v2"
    )


def joined(incident: str, number: int = 1) -> GroupedAlert:
    alert = Alert(source="pagerduty", id=incident, title=f"symptom {number}", started_at=NOW)
    return GroupedAlert(alert, f"f{number}", NOW, "checkout calls payments, 2 min apart")


def test_an_incident_that_was_resolved_meanwhile_gets_one_short_note(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1", status="resolved")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    answered(pagerduty_at, store, investigation)
    answered(pagerduty_at, store, investigation, headline="something else now")
    [note] = incident.notes
    assert (
        note.content.splitlines()[0]
        == "Resolved meanwhile. What the investigation found: payments v2"
    )
    assert len(note.content.splitlines()) == 3
    assert len(note.versions) == 1


def test_a_note_that_stands_is_left_as_it_is_once_the_incident_is_resolved(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    answered(pagerduty_at, store, investigation)
    incident.status = "resolved"
    answered(pagerduty_at, store, investigation)
    [note] = incident.notes
    assert note.content.startswith("Likely cause")


def asked(store: Store, investigation: StoredInvestigation, incident: str) -> StoredInvestigation:
    """Somebody clicked on *Send to PagerDuty*."""
    store.finish(investigation.id, "done", verdict=None, confidence=None, headline="payments v2")
    TicketRequests(store.engine).ask(investigation.id, "pagerduty", incident)
    found = store.get(investigation.id)
    assert found is not None
    return found


def test_a_person_gets_the_whole_answer_on_an_incident_that_is_over(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1", status="resolved")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    answered(pagerduty_at, store, asked(store, investigation, "P1"))
    [note] = incident.notes
    assert note.content.startswith("Likely cause: payments v2")


def further_of(store: Store, first: StoredInvestigation) -> StoredInvestigation:
    """A follow-up, which is answered nowhere by itself."""
    name, _ = FollowUps(store.engine).start(
        first, FollowUpScope(), key="k", question="wider", who="ann", reply_to=ReplyTo()
    )
    store.finish(name, "done", verdict=None, confidence=None, headline="payments v2")
    found = store.get(name)
    assert found is not None
    return found


def test_two_workers_write_one_note_of_what_a_person_asked_for(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1")
    first = accepted(store, ReplyTo(pagerduty_incident="P1"))
    further = further_of(store, first)
    one, other = replies(pagerduty_at, store), replies(pagerduty_at, store)
    assert not one.expects_answer(further)
    wished = asked(store, further, "P1")
    assert one.expects_answer(wished)
    outcome = Outcome(wished, Answer(a_diagnosis(), a_report(), some_evidence(), [a_gap()], None))

    async def both() -> None:
        await asyncio.gather(one.answer(outcome), other.answer(outcome))

    asyncio.run(both())
    [note] = incident.notes
    assert note.content.endswith(f"Faultline {first.id}")
    assert f"/investigations/{further.id}" in note.content


@pytest.mark.parametrize("merged_into", [None, "P2"])
def test_a_click_and_a_note_that_was_written_are_each_due_once_at_the_worker(
    pagerduty_at: PagerDutyAt, store: Store, merged_into: str | None
) -> None:
    opened(pagerduty_at, "P1", merged_into=merged_into)
    opened(pagerduty_at, "P2")
    further = further_of(store, accepted(store, ReplyTo(pagerduty_incident="P1")))
    queued: list[tuple[str, ...]] = []
    updates = MessageUpdates(
        store, [replies(pagerduty_at, store)], lambda *job: queued.append(job), every_s=1
    )
    now = datetime.now(UTC)
    updates.look(now + timedelta(minutes=1))
    assert queued == []
    wished = asked(store, further, "P1")
    for minute in range(2, 6):
        updates.look(now + timedelta(minutes=minute))
        answered(pagerduty_at, store, wished)
    jobs = [(further.id, "pagerduty")] * 2
    assert [job[-2:] for job in queued] == jobs, "for the click, and to say that it is there"
    assert len(pagerduty_at.pagerduty.notes) == 1


def test_an_account_of_another_name_is_not_written_to(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    opened(pagerduty_at, "P1")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    with pytest.raises(ConnectorError, match="names no incident"):
        answered(pagerduty_at, store, asked(store, investigation, "eu:P1"))
    assert pagerduty_at.pagerduty.notes == []


def test_it_is_offered_for_an_incident_alone_and_without_the_key(store: Store) -> None:
    server = settings(pagerduty={"from_email": "oncall@example.com"})
    url = "https://acme.pagerduty.com/incidents/P1"
    alert = an_investigation().alert.model_copy(
        update={"links": (Link(title="PagerDuty", url=url),)}
    )
    one = replace(an_investigation(), alert=alert, reply_to=ReplyTo(pagerduty_incident="P1"))
    [offer] = ticket_offers(one, store, server)
    assert (offer.label, offer.value, offer.title) == ("Send to PagerDuty", "pagerduty P1", "")
    assert offer.url == url
    assert any("no token for them" in said.what for said in settings_checks(server))
    other = replace(one, reply_to=ReplyTo(pagerduty_incident="P2"))
    assert ticket_offers(other, store, server)[0].url == "", "the alert is of another incident"
    pages = {"from_email": "oncall@example.com", "web_url": "https://acme.pagerduty.com"}
    assert ticket_offers(other, store, settings(pagerduty=pages))[0].url == url[:-1] + "2"
    assert ticket_offers(replace(one, reply_to=ReplyTo()), store, server) == ()
    assert ticket_offers(one, store, settings(pagerduty={"api_token": "key"})) == ()


def test_a_failed_investigation_says_nothing_on_an_incident_that_is_over(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1", status="resolved")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    asyncio.run(replies(pagerduty_at, store).answer(Outcome(investigation, None)))
    assert incident.notes == []


def test_the_note_goes_to_the_incident_into_which_it_was_merged(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    first = opened(pagerduty_at, "P1", status="resolved", merged_into="P2")
    second = opened(pagerduty_at, "P2", status="resolved", merged_into="P3")
    third = opened(pagerduty_at, "P3")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    answered(pagerduty_at, store, investigation)
    answered(pagerduty_at, store, investigation, headline="said better")
    assert (first.notes, second.notes) == ([], [])
    [note] = third.notes
    assert len(note.versions) == 2
    assert "said better" in note.content


def test_incidents_merged_in_a_circle_end(pagerduty_at: PagerDutyAt, store: Store) -> None:
    for one, other in (("P1", "P2"), ("P2", "P1")):
        opened(pagerduty_at, one, status="resolved", merged_into=other)
    answered(pagerduty_at, store, accepted(store, ReplyTo(pagerduty_incident="P1")))
    assert len(pagerduty_at.pagerduty.notes) == 1


@pytest.mark.parametrize("answer", [None, [], {}, {"status": 5}])
def test_an_incident_that_cannot_be_read_is_an_error(answer: Any) -> None:
    with pytest.raises(ConnectorError, match="not understood"):
        read_incident(answer, "P1")


@pytest.mark.parametrize("into", [None, "P9", {"id": "../users"}, {"id": "P1"}, {"id": 5}, {}])
def test_a_merge_into_nothing_sensible_is_none(into: Any) -> None:
    reason = {"type": "merge_resolve_reason", "incident": into}
    state = read_incident({"status": "resolved", "resolve_reason": reason}, "P1")
    assert (state.resolved, state.merged_into) == (True, None)


def test_custom_fields_are_filled_with_what_the_settings_name(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    pagerduty_at.pagerduty.fields = frozenset({"rca", "sure"})
    incident = opened(pagerduty_at, "P1")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    answered(
        pagerduty_at,
        store,
        investigation,
        "x" * 900,
        custom_fields={"headline": "rca", "confidence": "sure"},
    )
    assert set(incident.custom_fields) == {"rca", "sure"}
    assert len(incident.custom_fields["rca"]) <= 200
    assert incident.custom_fields["sure"].endswith(" %")


def test_a_field_that_the_account_does_not_have_costs_the_field_and_not_the_note(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P1")
    investigation = accepted(store, ReplyTo(pagerduty_incident="P1"))
    with pytest.raises(ConnectorError, match="Custom field does not exist") as raised:
        answered(pagerduty_at, store, investigation, custom_fields={"verdict": "nope"})
    assert not raised.value.retryable
    assert len(incident.notes) == 1


def test_no_field_is_touched_unless_the_settings_name_it(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    opened(pagerduty_at, "P1")
    answered(pagerduty_at, store, accepted(store, ReplyTo(pagerduty_incident="P1")))
    assert pagerduty_at.pagerduty.traffic.calls["set fields"] == 0


def test_incidents_whose_alerts_joined_are_told_once_where_the_answer_is(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    opened(pagerduty_at, "P1")
    second, over = opened(pagerduty_at, "P2"), opened(pagerduty_at, "P3", status="resolved")
    investigation = replace(
        accepted(store, ReplyTo(pagerduty_incident="P1")),
        related=(joined("P1"), joined("P2", 2), joined("P3", 3), joined("../../users", 4)),
        headline="payments v2 breaks checkout",
    )
    answered(pagerduty_at, store, investigation)
    assert second.notes == [], "the answer itself waits for no other note"
    pointed(pagerduty_at, store, investigation)
    asked = pagerduty_at.pagerduty.traffic.calls["incident"]
    pointed(pagerduty_at, store, investigation)
    assert pagerduty_at.pagerduty.traffic.calls["incident"] == asked
    [note] = second.notes
    assert len(note.versions) == 1
    assert "checkout calls payments, 2 min apart" in note.content
    assert "Found: payments v2 breaks checkout" in note.content
    assert over.notes == []


def test_all_incidents_of_a_storm_get_their_note_whatever_crashes_and_one_pace_holds_for_all(
    pagerduty_at: PagerDutyAt, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 incidents, two workers, of which one is cut off in the middle."""
    monkeypatch.setattr(calls, "JOINED_PER_S", 150.0)
    incidents = [opened(pagerduty_at, f"P{n}") for n in range(300)]
    investigation = a_storm(store, 300)
    began = time.monotonic()

    async def story() -> None:
        first, second = (replies(pagerduty_at, store, lease=SHORT_LEASE) for _ in range(2))
        outcome = Outcome(investigation, None)
        cut_off = asyncio.create_task(first.point_from_joined(outcome))
        beside = asyncio.create_task(second.point_from_joined(outcome))
        while sum(len(one.notes) for one in incidents) < 100:
            await asyncio.sleep(0.01)
        cut_off.cancel()
        await beside

    asyncio.run(story())
    assert [len(one.notes) for one in incidents] == [0] + [1] * 299
    assert pagerduty_at.pagerduty.traffic.calls["create note"] == 299
    assert time.monotonic() - began >= (299 - calls.JOINED_AT_ONCE) / 150


def test_an_incident_that_takes_no_note_keeps_no_other_waiting(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incidents = [opened(pagerduty_at, f"P{n}") for n in range(5) if n != 1]  # P1 was deleted
    investigation = a_storm(store, 5)
    pagerduty_at.pagerduty.traffic.fail_next(1, 500, call="create note")
    with pytest.raises(ConnectorError) as raised:
        pointed(pagerduty_at, store, investigation)
    assert raised.value.status == 500
    pointed(pagerduty_at, store, investigation)
    assert [len(one.notes) for one in incidents] == [0, 1, 1, 1]


def test_a_key_that_may_not_write_is_not_tried_for_every_incident(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    investigation = a_storm(store, 30)
    target = replies(pagerduty_at, store, api_token="wrong")
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(target.point_from_joined(Outcome(investigation, None)))
    assert not raised.value.retryable
    assert pagerduty_at.pagerduty.traffic.calls["incident"] == 1


def test_an_incident_that_joined_an_alert_of_another_vendor_is_told_too(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    incident = opened(pagerduty_at, "P2")
    investigation = replace(accepted(store, ReplyTo()), related=(joined("P2"),))
    assert replies(pagerduty_at, store).expects_answer(investigation)
    answered(pagerduty_at, store, investigation)
    pointed(pagerduty_at, store, investigation)
    assert len(incident.notes) == 1


def test_an_incident_of_another_account_that_joined_is_told_there(
    pagerduty_at: PagerDutyAt, store: Store
) -> None:
    """Both accounts have an incident of the same id; this one's joined the other's."""
    ours = opened(pagerduty_at, "P1")
    alert = Alert(
        source="pagerduty",
        id="P1",
        title="symptom",
        started_at=NOW,
        labels={"pagerduty_account": "us"},
    )
    member = GroupedAlert(alert, "f1", NOW, "checkout calls payments, 2 min apart")
    investigation = replace(accepted(store, ReplyTo(pagerduty_incident="eu:P1")), related=(member,))
    tables = [
        {"name": name, "from_email": "oncall@example.com", "api_url": pagerduty_at.url}
        for name in ("us", "asia")
    ]
    tokens = {f"FAULTLINE_PAGERDUTY__{name}__API_TOKEN": "key" for name in ("US", "ASIA")}
    us, asia = (
        PagerDutyReplies(one, store, owner="w1")
        for one in settings_of({"pagerduty": tables}, tokens).per_instance("pagerduty")
    )
    assert (us.expects_answer(investigation), asia.expects_answer(investigation)) == (True, False)
    answer = Answer(a_diagnosis(), a_report(), some_evidence(), [a_gap()], None)
    for _ in range(2):
        asyncio.run(us.answer(Outcome(investigation, answer)))
        asyncio.run(us.point_from_joined(Outcome(investigation, answer)))
    [note] = ours.notes
    assert "Investigated together with" in note.content
    assert f"{investigation.id}:pagerduty us:P1" in store.posts(investigation.id)


def test_the_note_says_what_was_looked_at_and_is_fine_and_which_alerts_are_part_of_it() -> None:
    quiet = [
        e.model_copy(update={"id": f"Q{n}", "rows": 10})
        for n in range(3)
        for e in some_evidence()[:1]
    ]
    investigation = replace(
        an_investigation(), related=tuple(joined(f"P{n}", n) for n in range(12))
    )
    text = note_text(
        investigation,
        answer_view(
            investigation.alert,
            a_diagnosis(),
            a_report(),
            gaps=[a_gap()],
            evidence=[*some_evidence(), *quiet],
        ),
        PAGE,
    )
    lines = text.splitlines()
    assert any(
        line.startswith("- ") and "answers" in line
        for line in lines[lines.index("Checked, nothing unusual:") :]
    )
    assert "- symptom 3 (checkout calls payments, 2 min apart)" in lines
    assert "- and 2 more alerts" in lines
