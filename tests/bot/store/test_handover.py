"""The hand-over on both databases: what is open, what recurs, and which alerts were noise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierCause, EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.handover import TeamDigest, team_digests
from faultline.bot.answer.handover_lines import summary, team_lines
from faultline.bot.store.listing import Labels
from faultline.bot.store.memory import Memory
from faultline.bot.store.reports import handover_incidents, places
from faultline.bot.store.store import ReplyTo, Store
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.bot.store.tables import InvestigationRow
from faultline.bot.store.visibility import visible_to_teams

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
SINCE = NOW - timedelta(days=7)


def fired(
    store: Store,
    title: str,
    *,
    hours_ago: float,
    verdict: str = "no_active_incident",
    minutes: float | None = 5,
    service: str = "checkout",
    cause: str | None = None,
    team: str = "",
    by_person: bool = False,
) -> str:
    """An alert that was answered, and resolved after some minutes unless it is open still."""
    at = NOW - timedelta(hours=hours_ago)
    labels = {"fingerprint": f"{service} {title} {hours_ago}"}
    alert = Alert(source="test", title=title, started_at=at, service=service, labels=labels)
    id_ = store.accept(alert, now=at, by_person=by_person).investigation_id
    assert id_ is not None
    store.finish(id_, "done", verdict=verdict, confidence=0.9, headline=f"{title}: answered")
    if minutes is not None:
        over = alert.model_copy(update={"status": "resolved"})
        store.accept(over, now=at + timedelta(minutes=minutes))
    with Session(store.engine) as session, session.begin():
        row = InvestigationRow
        session.execute(update(row).values(team=team).where(row.id == id_))
    if cause is not None:
        causes = (EarlierCause(subject=cause, kind="service", troubles=("error_logs",)),)
        kept = EarlierInvestigation(
            id=id_,
            at=at,
            fingerprint=alert.fingerprint,
            title=title,
            services=(service,),
            verdict=verdict,
            causes=causes,
        )
        Memory(store.engine).remember(kept, alert)
    return id_


def digests(store: Store, **seen: tuple[str, ...]) -> tuple[TeamDigest, ...]:
    mutes = Mutes(store.engine).active(NOW)
    given = {"visibility": visible_to_teams(seen["teams"])} if seen else {}
    return team_digests(
        handover_incidents(store.engine, SINCE, NOW, **given),
        mutes,
        SINCE,
    )


def said(digest: TeamDigest) -> list[str]:
    return [f"{line.label}: {line.text}" for line in team_lines(digest, NOW)]


def test_the_next_shift_reads_what_is_open_what_recurs_and_what_was_noise(store: Store) -> None:
    for hours, minutes in ((10, 2), (30, 4), (60, 9)):
        fired(store, "Disk of db is filling", hours_ago=hours, minutes=minutes, service="db")
    for hours in (20, 40):
        fired(store, "Errors", hours_ago=hours, verdict="cause_found", cause="payments")
    waiting = fired(store, "Latency", hours_ago=5, verdict="cause_found", minutes=None)
    (digest,) = digests(store)
    assert [one.id for one in digest.open] == [waiting]
    assert summary(digest, NOW - SINCE) == (
        "6 alerts in the last 7 days: 3 with a cause, 3 with nothing wrong or over by themselves. "
        "1 is open."
    )
    lines = said(digest)
    assert lines[0] == "Open: Latency (checkout), for 5 hours: Latency: answered"
    assert lines[1].startswith("Recurring: payments ")
    assert lines[1].endswith(": 2 incidents of checkout, last 20 Nov 13:00 UTC")
    assert lines[2] == (
        "Noise: Disk of db is filling: fired 3 times, 3 with nothing wrong, median length 4 min"
    )
    assert [line.split(" Errors")[0] for line in lines[3:]] == [
        "Resolved: 20 Nov 13:00 UTC",
        "Resolved: 19 Nov 17:00 UTC",
    ]


def test_an_alert_that_somebody_confirmed_or_called_wrong_is_no_noise(store: Store) -> None:
    labels = Labels(store.engine)
    quiet = [fired(store, "Disk is filling", hours_ago=h) for h in (1, 2)]
    (digest,) = digests(store)
    assert [(noise.quiet, len(noise.fired)) for noise in digest.noise] == [(2, 2)]
    labels.write(quiet[0], right=True)
    assert len(digests(store)[0].noise) == 1, "somebody confirmed that nothing was wrong"
    labels.write(quiet[0], right=False, cause="the disk was full")
    (digest,) = digests(store)
    assert digest.noise == ()
    assert digest.judged == (0, 1)


@pytest.mark.parametrize("verdict", ["cause_found", "recovered"])
def test_an_alert_of_which_one_incident_was_real_is_no_noise(store: Store, verdict: str) -> None:
    for hours in (1, 2, 3):
        fired(store, "Disk is filling", hours_ago=hours)
    real = fired(store, "Disk is filling", hours_ago=4, verdict=verdict)
    (digest,) = digests(store)
    assert len(digest.noise) == 1, "nobody said so yet"
    Labels(store.engine).write(real, right=True)
    assert digests(store)[0].noise == ()


def test_an_alert_that_is_wrong_as_often_as_not_is_no_noise(store: Store) -> None:
    for hours in (1, 2):
        fired(store, "Disk is filling", hours_ago=hours)
        fired(store, "Disk is filling", hours_ago=hours + 10, verdict="cause_found")
    assert digests(store)[0].noise == ()


def test_a_cause_that_people_called_wrong_does_not_recur(store: Store) -> None:
    first, _ = (
        fired(store, "Errors", hours_ago=h, verdict="cause_found", cause="payments") for h in (2, 4)
    )
    assert len(digests(store)[0].recurring) == 1
    Labels(store.engine).write(first, right=False, cause="cart")
    assert digests(store)[0].recurring == ()


def test_each_team_has_its_own_and_what_is_not_seen_is_not_counted(store: Store) -> None:
    fired(store, "Errors", hours_ago=1, team="payments")
    fired(store, "Latency", hours_ago=2, team="search")
    fired(store, "Disk", hours_ago=3)
    assert [one.team for one in digests(store)] == ["payments", "search", ""]
    assert [one.team for one in digests(store, teams=("search",))] == ["search", ""]


def test_open_alerts_from_before_are_listed_and_not_counted(store: Store) -> None:
    old = fired(store, "Errors", hours_ago=10 * 24, minutes=None)
    fired(store, "Forgotten", hours_ago=31 * 24, minutes=None)
    fired(store, "Long over", hours_ago=9 * 24)
    asked = fired(store, "Why is it slow?", hours_ago=1, by_person=True, minutes=None)
    (digest,) = digests(store)
    assert [one.id for one in digest.open] == [old]
    assert asked not in [one.id for one in digest.lately], "no alert"
    assert summary(digest, NOW - SINCE) == "0 alerts in the last 7 days. 1 is open."


def test_a_mute_that_holds_is_handed_over_with_who_set_it(store: Store) -> None:
    id_ = fired(store, "Disk", hours_ago=1)
    found = store.get(id_)
    assert found is not None
    mutes, until = Mutes(store.engine), NOW + timedelta(hours=2)
    fingerprint = found.alert.fingerprint
    mutes.mute(fingerprint, until, "bob", "resize\nruns", title="Disk", now=NOW)
    mutes.mute("unseen", until, "bob", "elsewhere", title="Other", now=NOW)
    (digest,) = digests(store)
    assert said(digest)[-1] == "Muted: Disk, until 21 Nov 11:00 UTC by bob: resize runs"
    assert len(digest.muted) == 1


def test_texts_of_alerts_are_one_line_without_secrets(store: Store) -> None:
    fired(store, "Disk\n\x1b[31m api_key=sk-live-abcdefghijklmnop1234", hours_ago=1, minutes=None)
    (line,) = said(digests(store)[0])
    assert "\n" not in line
    assert "\x1b" not in line
    assert "abcdefgh" not in line


def test_where_investigations_are_answered(store: Store) -> None:
    alert = Alert(source="test", title="Disk", started_at=NOW, service="db")
    id_ = store.accept(alert, reply_to=ReplyTo("C0SECRET", "1.2")).investigation_id or ""
    store.claim_post("k", id_, owner="w1", lease=timedelta(minutes=1))
    store.record_post("k", "C0OTHER/1.3")
    (place,) = places(store.engine, {id_, "20200101-000000-000000"})
    assert (place.id, place.slack_channel, place.refs) == (id_, "C0SECRET", ("C0OTHER/1.3",))
