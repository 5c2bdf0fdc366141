"""How an alert is classified in the store: groups, mutes, rules, rate and quiet hours, on SQLite
and on PostgreSQL."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.services import ServiceTopology
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertRule, AlertSettings, ChannelSettings
from faultline.bot.settings.people import TeamSettings
from faultline.bot.store.connections import connect
from faultline.bot.store.groups import MAX_GROUP, MAX_RUNS
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from faultline.bot.store.messages import EDIT_EVERY, DueUpdates
from faultline.bot.store.store import (
    Accepted,
    Arrival,
    Delivery,
    ReplyTo,
    Store,
    StoredInvestigation,
)
from faultline.bot.store.suppressed_alerts import Mutes, suppressed_alerts
from faultline.bot.store.tables import AlertKeyRow, GroupedAlertRow, InvestigationRow
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.databases import store_engine

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SERVICES = {
    "frontend": ServiceSettings(depends_on=("checkout",)),
    "checkout": ServiceSettings(depends_on=("payments", "cart")),
    "payments": ServiceSettings(depends_on=("bank",)),
    "cart": ServiceSettings(),
    "bank": ServiceSettings(),
    "search": ServiceSettings(),
}
Opened = Callable[..., Store]


@pytest.fixture
def opened(database_url: str) -> Iterator[Opened]:
    """Stores on one database, each with the rules it is given."""
    engines = [store_engine(database_url)]

    def with_rules(**alerts: Any) -> Store:
        engines.append(connect(database_url))
        settings = Settings(services=SERVICES, alerts=AlertSettings(**alerts))
        return Store(engines[-1], policy=Policy.of(settings))

    yield with_rules
    for engine in engines:
        engine.dispose()


def alert(service: str, title: str = "errors", *, minutes: float = 0, **more: Any) -> Alert:
    started = NOW + timedelta(minutes=minutes)
    return Alert(source="alertmanager", title=title, service=service, started_at=started, **more)


def taken(store: Store, one: Alert, *, channel: str = "C1", **more: Any) -> tuple[str, str | None]:
    accepted = store.accept(
        one, reply_to=ReplyTo(channel), now=more.pop("now", one.started_at), **more
    )
    return accepted.outcome, accepted.investigation_id


def the_one(store: Store) -> StoredInvestigation:
    [found] = store.latest()
    return found


def test_a_related_alert_joins_and_says_why(opened: Opened) -> None:
    store = opened()
    _, first = taken(store, alert("payments"))
    assert taken(store, alert("checkout", minutes=2)) == ("grouped", first)
    [joined] = the_one(store).related
    assert joined.alert.service == "checkout"
    assert joined.why == "checkout calls payments, 2 min apart"
    assert joined.at == NOW + 2 * MINUTE


def test_a_repeat_of_an_alert_that_joined_is_counted_on_it(opened: Opened) -> None:
    store = opened()
    _, first = taken(store, alert("payments"))
    taken(store, alert("checkout", minutes=1))
    assert taken(store, alert("checkout", minutes=1), now=NOW + 9 * MINUTE) == ("joined", first)
    [joined] = the_one(store).related
    assert joined.repeats == 1


def test_repeats_of_open_alerts_cost_few_statements_however_many_come_together(
    opened: Opened,
) -> None:
    store = opened()
    alerts = [alert("payments", f"symptom {n}", id=f"a{n}") for n in range(32)]
    store.accept_all([Arrival(one, Delivery("test", f"{one.id}:0")) for one in alerts], now=NOW)
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    repeats = [Arrival(one, Delivery("test", f"{one.id}:1")) for one in alerts]
    taken_now = store.accept_all(repeats, now=NOW)
    assert {one.outcome for one in taken_now} == {"joined"}
    assert len(statements) <= 12, statements
    of = the_one(store)
    assert (of.repeats, {one.repeats for one in of.related}) == (1, {1})


def learned(store: Store, caller: str, callee: str, **place: str) -> None:
    call = LearnedCall(caller, callee, "mesh", NOW - MINUTE, "earlier", place)
    LearnedCalls(store.engine).learn([call])


@pytest.mark.parametrize(("first", "second"), [("api", "ledger"), ("ledger", "api")])
def test_alerts_join_by_a_call_that_was_learned_in_whatever_order(
    opened: Opened, first: str, second: str
) -> None:
    store = opened()
    learned(store, "api", "ledger", environment="prod")
    _, joined = taken(store, alert(first, labels={"env": "prod"}))
    later = alert(second, minutes=1, labels={"env": "prod"})
    assert taken(store, later) == ("grouped", joined)
    assert the_one(store).related[0].why == "api calls ledger, 60 s apart"


def test_a_call_learned_elsewhere_or_against_the_catalogue_joins_nothing(opened: Opened) -> None:
    store = opened()
    learned(store, "api", "ledger", environment="staging")
    taken(store, alert("api", labels={"env": "prod"}))
    assert taken(store, alert("ledger", labels={"env": "prod"}))[0] == "started"
    assert ServiceTopology(callees={"a": frozenset({"b"})}).with_calls([("b", "a")]).callees == {
        "a": frozenset({"b"})
    }


def test_calls_that_cannot_be_read_keep_no_alert_out(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OperationalError("select", {}, OSError("away"))

    monkeypatch.setattr(LearnedCalls, "of_place", fails)
    assert taken(opened(), alert("payments"))[0] == "started"


def test_an_unrelated_alert_has_an_investigation_of_its_own(opened: Opened) -> None:
    store = opened()
    taken(store, alert("payments"))
    assert taken(store, alert("search"))[0] == "started"
    assert [i.related for i in store.latest()] == [(), ()]


def test_what_is_too_late_too_old_or_over_does_not_join(opened: Opened) -> None:
    store = opened()
    taken(store, alert("payments"))
    assert taken(store, alert("checkout", "late", minutes=6))[0] == "started"
    days_old = alert("bank", "old", minutes=-4000)
    assert taken(store, days_old, now=NOW)[0] == "started"
    taken(store, alert("payments").model_copy(update={"status": "resolved"}), now=NOW + 7 * MINUTE)
    taken(
        store,
        alert("checkout", "late").model_copy(update={"status": "resolved"}),
        now=NOW + 7 * MINUTE,
    )
    assert taken(store, alert("checkout", "afresh", minutes=7.5))[0] == "started"


def test_a_storm_that_rolls_on_ends_with_the_longest_time(opened: Opened) -> None:
    store = opened()
    outcomes = [
        taken(store, alert("cart", f"symptom {'x' * n}", minutes=4 * n))[0] for n in range(9)
    ]
    assert outcomes == ["started"] + ["grouped"] * 7 + ["started"]


def test_an_alert_that_joined_is_resolved_by_itself_and_joins_again(opened: Opened) -> None:
    store = opened()
    _, first = taken(store, alert("payments"))
    taken(store, alert("checkout", minutes=1))
    over = alert("checkout", minutes=1).model_copy(update={"status": "resolved"})
    assert taken(store, over, now=NOW + 2 * MINUTE) == ("resolved", first)
    assert the_one(store).related[0].resolved_at == NOW + 2 * MINUTE
    assert the_one(store).resolved_at is None
    assert taken(store, alert("checkout", minutes=3)) == ("grouped", first)
    [again] = the_one(store).related
    assert (again.resolved_at, again.repeats) == (None, 1)


def test_the_same_deliveries_again_change_nothing(opened: Opened) -> None:
    store = opened()
    storm = [(alert(s), Delivery("alertmanager", s)) for s in ("payments", "checkout", "cart")]
    for one, delivery in storm:
        store.accept(one, delivery=delivery, now=NOW)
    before = store.latest()
    assert [store.accept(one, delivery=delivery, now=NOW).outcome for one, delivery in storm] == [
        "duplicate"
    ] * 3
    assert store.latest() == before


def test_in_whatever_order_a_storm_comes_what_is_related_throughout_is_one_investigation(
    opened: Opened,
) -> None:
    """Of alerts of which each is related to each, and of others of which none is to any."""
    store = opened()
    for number, order in enumerate(itertools.permutations(range(3))):
        start = NOW + number * timedelta(hours=1)
        storm = [
            Alert(source="a", title=f"{'abc'[n]} fails", service=s, started_at=start + n * MINUTE)
            for n, s in ((0, "cart"), (1, "cart"), (2, "checkout"))
        ]
        alone = Alert(source="a", title="search is slow", service="search", started_at=start)
        outcomes = store.accept_all(
            [Arrival(a) for a in (*(storm[n] for n in order), alone)], now=start + 2 * MINUTE
        )
        assert len({one.investigation_id for one in outcomes[:3]}) == 1
        assert outcomes[3].investigation_id not in {one.investigation_id for one in outcomes[:3]}
        for one in (*storm, alone):
            store.accept(one.model_copy(update={"status": "resolved"}), now=start + 3 * MINUTE)


@pytest.mark.parametrize("seed", range(3))
def test_alerts_of_one_transaction_are_taken_as_if_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"{service} {number}" for service in SERVICES for number in range(3)]
    shown: list[Any] = []
    batches = []
    for minute in range(8):
        chosen = [dice.choice(names) for _ in range(dice.randrange(1, 20))]
        batches.append([an_arrival(name, minute, dice) for name in chosen])
    for at_once in (True, False):
        numbers = itertools.count()
        monkeypatch.setattr(
            "faultline.bot.store.admitting.new_investigation_id",
            lambda _now, of=numbers: f"{next(of):05d}",
        )
        database = store_engine(f"sqlite:///{tmp_path}/{at_once}.sqlite")
        store = Store(database, policy=Policy.of(Settings(services=SERVICES)))
        outcomes: list[Accepted] = []
        for minute, batch in enumerate(batches):
            now = NOW + minute * timedelta(
                seconds=61
            )  # no two as far apart as the window, to the microsecond
            for n, some in enumerate([batch] if at_once else [[one] for one in batch]):
                outcomes += store.accept_all(some, now=now + timedelta(microseconds=n))
            for one in sorted(store.latest(), key=lambda one: one.alert.fingerprint)[: minute % 2]:
                store.start(one.id)
        shown.append(the_books(store, outcomes))
        database.dispose()
    assert shown[0] == shown[1]
    assert {outcome for outcome, _ in shown[0][0]} >= {"started", "grouped", "joined", "resolved"}


def an_arrival(name: str, minute: int, dice: random.Random) -> Arrival:
    region = dice.choice(["eu", "us"])
    status: Any = dice.choice(["firing", "firing", "resolved"])
    labels = {"fingerprint": name, "region": region}
    return Arrival(alert(name.split()[0], name, minutes=minute, status=status, labels=labels))


def second(at: datetime | None) -> datetime | None:
    return at.replace(microsecond=0) if at else None


def the_books(store: Store, outcomes: list[Accepted]) -> Any:
    """All that the store holds of groups; investigations by the order in which they began."""
    order = {name: n for n, name in enumerate(dict.fromkeys(o.investigation_id for o in outcomes))}
    with Session(store.engine) as session:
        rows = session.scalars(select(InvestigationRow)).all()
        of_rows = [
            (r.fingerprint, r.members, r.revision, r.repeats, r.wants_run, second(r.resolved_at))
            for r in rows
        ]
        members = [
            (
                order[m.investigation_id],
                m.fingerprint,
                m.open_fingerprint,
                m.repeats,
                second(m.resolved_at),
                m.why,
            )
            for m in session.scalars(select(GroupedAlertRow))
        ]
        keys = [
            (order[k.investigation_id], k.fingerprint, k.key, second(k.at))
            for k in session.scalars(select(AlertKeyRow))
        ]
    told = [(o.outcome, order[o.investigation_id]) for o in outcomes]
    return told, sorted(of_rows, key=str), sorted(members, key=str), sorted(keys)


def test_what_is_too_old_to_be_joined_is_no_longer_looked_up(opened: Opened) -> None:
    store = opened()
    for minutes in (0, 20, 45):
        taken(store, alert("payments", f"after {minutes}", minutes=minutes))
    with Session(store.engine) as session:
        times = {second(row.at) for row in session.scalars(select(AlertKeyRow))}
    # Half an hour is the longest; the first two have no other times.
    assert times == {NOW + 20 * MINUTE, NOW + 45 * MINUTE}


def test_several_processes_at_once_lose_no_alert_and_make_one_group(opened: Opened) -> None:
    stores = [opened() for _ in range(4)]
    storm = [alert(s, f"{'x' * n} fails") for n in range(10) for s in ("payments", "checkout")]
    random.Random(7).shuffle(storm)
    with ThreadPoolExecutor(8) as pool:
        ids = set(
            pool.map(lambda n: stores[n % 4].accept(storm[n], now=NOW).investigation_id, range(20))
        )
    assert len(ids) == 1
    found = the_one(stores[0])
    assert len(found.related) == 19
    assert {found.alert.fingerprint, *(g.fingerprint for g in found.related)} == {
        a.fingerprint for a in storm
    }


def test_a_group_takes_so_many_and_the_next_another(opened: Opened) -> None:
    store = opened()
    storm = [Arrival(alert("cart", "x" * n)) for n in range(1, MAX_GROUP + 3)]
    outcomes = [one.outcome for one in store.accept_all(storm, now=NOW)]
    assert outcomes == ["started"] + ["grouped"] * MAX_GROUP + ["started"]


def test_switched_off_nothing_joins_and_in_its_shadow_it_is_said(opened: Opened) -> None:
    off = opened(groups="off")
    taken(off, alert("payments"))
    assert taken(off, alert("checkout"))[0] == "started"
    shadow = opened(groups="shadow")
    _, first = taken(shadow, alert("bank"))
    outcome, second = taken(shadow, alert("payments", "slow", minutes=1))
    assert outcome == "started"
    assert [line.text for line in shadow.progress(second or "")] == [
        f"would have joined {first}: payments calls bank, 60 s apart"
    ]


def test_what_a_person_asks_for_joins_nothing_and_nothing_joins_it(opened: Opened) -> None:
    store = opened(
        rules=(AlertRule(investigate=False),), channels={"*": ChannelSettings(per_hour=1)}
    )
    asked = alert("payments", labels={"fingerprint": "asked:C1:1"})
    assert taken(store, asked, by_person=True)[0] == "started"
    again = alert("payments", labels={"fingerprint": "asked:C1:2"})
    assert taken(store, again, by_person=True)[0] == "started"
    assert taken(opened(), alert("payments"))[0] == "started"


def test_the_services_of_alerts_that_joined_ask_for_another_run_only_once_the_scope_is_fixed(
    opened: Opened,
) -> None:
    store, again = opened(), DueUpdates(opened().engine)
    _, first = taken(store, alert("payments"))
    assert first is not None
    taken(store, alert("checkout", minutes=1))
    store.start(first)
    taken(store, alert("bank", minutes=2))
    taken(store, alert("cart", "cart is slow", minutes=2))
    store.finish(first, "done", verdict=None, confidence=None, headline="")
    assert again.to_rerun() == [], "bank and cart are called by what is looked at"
    taken(store, alert("frontend", minutes=3))
    [rerun] = again.to_rerun()
    assert (rerun.investigation_id, rerun.number) == (first, 1)
    store.start(first)
    assert again.to_rerun() == []
    assert the_one(store).runs == 1


def test_runs_are_not_asked_for_without_end(opened: Opened) -> None:
    store, again = opened(), DueUpdates(opened().engine)
    many = {f"s{n}": ServiceSettings(depends_on=("hub",)) for n in range(6)}
    store = Store(store.engine, policy=Policy.of(Settings(services=many)))
    _, first = taken(store, alert("hub"))
    assert first is not None
    runs = 0
    for name in many:
        store.start(first)
        store.finish(first, "done", verdict=None, confidence=None, headline="")
        taken(store, alert(name, minutes=1))
        runs += len(again.to_rerun())
    assert runs == MAX_RUNS


def test_what_joins_after_the_answer_is_told_again_but_not_more_often_than_slack_likes(
    opened: Opened,
) -> None:
    store, again = opened(), DueUpdates(opened().engine)
    _, first = taken(store, alert("payments"))
    assert first is not None
    store.start(first)
    taken(store, alert("bank"))
    store.finish(first, "done", verdict=None, confidence=None, headline="")
    assert again.revisions(NOW) == [], "the answer itself tells what joined before"
    taken(store, alert("bank", "slow"))
    [due] = again.revisions(NOW)
    taken(store, alert("bank", "slower"))
    again.mark_notified(due, NOW)
    assert again.revisions(NOW + EDIT_EVERY / 2) == []
    [due] = again.revisions(NOW + EDIT_EVERY)
    again.mark_notified(due, NOW + EDIT_EVERY)
    assert again.revisions(NOW + 9 * EDIT_EVERY) == []


def test_a_muted_alert_is_counted_and_the_next_one_after_the_mute_is_investigated(
    opened: Opened,
) -> None:
    store = opened()
    mutes, noisy = Mutes(store.engine), alert("payments")
    mutes.mute(noisy.fingerprint, NOW + 10 * MINUTE, "U1", "deploying", now=NOW)
    assert taken(store, noisy) == ("muted", None)
    assert taken(store, noisy, now=NOW + 9 * MINUTE) == ("muted", None)
    assert taken(store, alert("search"))[0] == "started"
    [held] = suppressed_alerts(store.engine)
    assert (held.kind, held.count, held.alert, held.why) == (
        "muted",
        2,
        noisy,
        "muted until 2026-11-21 03:10 UTC by U1",
    )
    [mute] = mutes.active(NOW + 9 * MINUTE)
    assert (mute.alert_count, mute.last_alert_at) == (2, NOW + 9 * MINUTE)
    assert taken(store, noisy, now=NOW + 10 * MINUTE)[0] == "started"


def test_a_mute_until_the_alert_is_resolved_ends_with_it(opened: Opened) -> None:
    store = opened()
    mutes, noisy = Mutes(store.engine), alert("payments")
    mutes.mute(noisy.fingerprint, NOW + 60 * MINUTE, "U1", until_resolved=True, now=NOW)
    assert taken(store, noisy)[0] == "muted"
    taken(store, noisy.model_copy(update={"status": "resolved"}), now=NOW + MINUTE)
    assert taken(store, noisy, now=NOW + 2 * MINUTE)[0] == "started"


def test_a_rule_holds_alerts_back_and_they_are_counted(opened: Opened) -> None:
    store = opened(rules=(AlertRule(name="no information", severity=("info",), investigate=False),))
    taken(store, alert("payments"))
    quiet = alert("checkout", severity="INFO")
    assert [taken(store, quiet)[0], taken(store, quiet)[0]] == ["excluded", "excluded"]
    [held] = suppressed_alerts(store.engine)
    assert (held.kind, held.count, held.why) == ("excluded", 2, "rule 1 (no information)")
    assert the_one(store).related == ()


def test_over_the_rate_of_a_channel_the_last_investigation_says_how_many_more(
    opened: Opened,
) -> None:
    store = opened(groups="off", channels={"C1": ChannelSettings(per_hour=2)})
    outcomes = [taken(store, alert(f"s{n}"), now=NOW + n * MINUTE)[0] for n in range(5)]
    assert outcomes == ["started", "started", "surplus", "surplus", "surplus"]
    assert taken(store, alert("s4"), now=NOW + 5 * MINUTE)[0] == "surplus"
    newest, oldest = store.latest()
    assert (newest.rate_limited, oldest.rate_limited) == (3, 0), "three alerts, one of them twice"
    assert taken(store, alert("s9"), channel="C2")[0] == "started"
    assert taken(store, alert("s4"), now=NOW + 60 * MINUTE)[0] == "started"


def test_in_quiet_hours_an_alert_is_investigated_and_told_in_a_digest(opened: Opened) -> None:
    store = opened(groups="off", channels={"C1": ChannelSettings(quiet="22:00-07:00")})
    again, end = DueUpdates(store.engine), NOW + timedelta(hours=4)
    _, first = taken(store, alert("payments"))
    _, second = taken(store, alert("search"), now=NOW + MINUTE)
    taken(store, alert("cart", severity="critical"))
    silent = {i.id: i.quiet_until for i in store.latest()}
    assert sorted(silent.values(), key=str) == [end, end, None]
    for one in (first, second):
        store.start(one or "")
    store.finish(first or "", "done", verdict=None, confidence=None, headline="")
    assert again.due_digests(end - MINUTE) == []
    assert again.due_digests(end) == [], "the second is not answered yet"
    [due] = again.due_digests(end + timedelta(hours=1))
    assert (due.channel, due.investigation_ids) == ("C1", (first, second))
    again.digested(due, end)
    assert again.due_digests(end + timedelta(hours=1)) == []


def test_an_urgent_alert_that_joins_in_quiet_hours_breaks_the_silence(opened: Opened) -> None:
    store = opened(channels={"C1": ChannelSettings(quiet="22:00-07:00")})
    _, first = taken(store, alert("payments"))
    assert the_one(store).quiet_until is not None
    assert taken(store, alert("checkout", severity="critical")) == ("grouped", first)
    assert the_one(store).quiet_until is None


def test_an_alert_from_pagerduty_that_joins_brings_its_incident(opened: Opened) -> None:
    store = opened()
    taken(store, alert("payments"))
    store.accept(alert("checkout"), reply_to=ReplyTo(pagerduty_incident="PINC1"), now=NOW)
    assert the_one(store).reply_to.pagerduty_incident == "PINC1"


def test_an_investigation_has_the_team_and_the_priority_of_its_alert(database_url: str) -> None:
    engine = store_engine(database_url)
    teams = {"shop": TeamSettings(services=("checkout",)), "ops": TeamSettings(channels=("C7",))}
    store = Store(engine, policy=Policy.of(Settings(services=SERVICES, teams=teams)))

    def admitted(one: Alert, channel: str, **more: Any) -> tuple[str, int]:
        found = store.get(taken(store, one, channel=channel, **more)[1] or "")
        assert found is not None
        return found.team, found.priority

    assert admitted(alert("checkout", severity="P1"), "C7") == ("shop", 0)
    assert admitted(alert("search", "slow", minutes=60), "C7") == ("ops", 2)
    assert admitted(alert("bank", "late", minutes=120, severity="info"), "C1") == ("", 3)
    assert admitted(alert("bank", "asked", minutes=180, severity="info"), "C1", by_person=True) == (
        "",
        0,
    )
    engine.dispose()


def test_an_urgent_alert_that_joins_makes_the_investigation_urgent(opened: Opened) -> None:
    store = opened()
    name = taken(store, alert("checkout", severity="warning"))[1]
    assert taken(store, alert("payments", minutes=1, severity="critical")) == ("grouped", name)
    found = store.get(name or "")
    assert found is not None
    assert found.priority == 0
