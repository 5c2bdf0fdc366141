"""Questions in the store, on both databases: taken once, in order, posted once; further
investigations started once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.store.conversations import STALE, Conversations, NewQuestion
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope, follow_up_scope
from faultline.bot.store.store import ReplyTo, Store

NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
ALERT = Alert(source="slack", title="checkout is slow", started_at=NOW)
QUESTION = NewQuestion("C1:1.1", "Ev1", "question", "thread", "why?", "U1", "C1", "0.9", "1.1")


def named(ts: str, **more: object) -> NewQuestion:
    return replace(QUESTION, id=f"C1:{ts}", ts=ts, **more)  # type: ignore[arg-type]


def test_a_message_is_one_question_however_often_it_arrives(store: Store) -> None:
    conversations = Conversations(store.engine)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: conversations.take(QUESTION), range(16)))
    assert taken.count(True) == 1
    assert conversations.waiting() == 1


def test_text_that_no_database_takes_is_made_storable(store: Store) -> None:
    conversations = Conversations(store.engine)
    conversations.take(named("2.1", text="a\x00b\ud800" + "x" * 9_000, investigation_id="unknown"))
    kept = conversations.get("C1:2.1")
    assert kept is not None
    assert kept.text.startswith("a b?")
    assert len(kept.text) <= 2_000
    assert kept.investigation_id is None


def test_of_a_thread_the_oldest_is_first_and_a_trace_waits_for_nobody(store: Store) -> None:
    conversations = Conversations(store.engine)
    for minute, (ts, more) in enumerate(
        (("3.1", {}), ("3.2", {}), ("3.3", {"kind": "trace"}), ("3.4", {"thread": "8.8"}))
    ):
        conversations.take(named(ts, **more), now=NOW + timedelta(minutes=minute))
    now = NOW + timedelta(minutes=10)
    assert set(conversations.undispatched(10, now=now)) == {"C1:3.1", "C1:3.3", "C1:3.4"}
    conversations.mark_dispatched(["C1:3.1"])
    assert "C1:3.2" not in conversations.undispatched(10, now=now)
    conversations.finish("C1:3.1", "answered")
    assert "C1:3.2" in conversations.undispatched(10, now=now)


def test_a_question_that_nobody_could_answer_blocks_its_thread_for_an_hour(store: Store) -> None:
    conversations = Conversations(store.engine)
    conversations.take(named("4.1"), now=NOW)
    conversations.take(named("4.2"), now=NOW + timedelta(minutes=1))
    assert conversations.undispatched(10, now=NOW + timedelta(minutes=2)) == ["C1:4.1"]
    assert "C1:4.2" in conversations.undispatched(10, now=NOW + STALE + timedelta(minutes=2))


def test_of_two_workers_the_first_ones_words_stand_and_one_may_post(store: Store) -> None:
    conversations = Conversations(store.engine)
    conversations.take(QUESTION)
    assert conversations.keep_answer(QUESTION.id, {"lead": "one"}, None) == {"lead": "one"}
    assert conversations.keep_answer(QUESTION.id, {"lead": "other"}, None) == {"lead": "one"}
    lease = timedelta(seconds=30)
    assert conversations.claim_post("k", QUESTION.id, owner="w1", lease=lease).mine
    assert not conversations.claim_post("k", QUESTION.id, owner="w2", lease=lease).mine
    assert conversations.claim_post("k", QUESTION.id, owner="w2", lease=timedelta(0)).mine
    conversations.record_post("k", "C1/9.9")
    assert conversations.claim_post("k", QUESTION.id, owner="w3", lease=lease).ref == "C1/9.9"


def test_a_thread_is_ours_by_the_alerts_thread_or_under_our_own_message(store: Store) -> None:
    conversations = Conversations(store.engine)
    asked = store.accept(ALERT, reply_to=ReplyTo("C1", "1.0")).investigation_id or ""
    paged = store.accept(ALERT.model_copy(update={"title": "other"})).investigation_id or ""
    store.claim_post(f"{paged}:slack", paged, owner="w", lease=timedelta(seconds=1))
    store.record_post(f"{paged}:slack", "C2/5.5")
    assert conversations.thread_of("C1", "1.0") == asked
    assert conversations.thread_of("C2", "5.5") == paged
    assert conversations.thread_of("C1", "5.5") is None
    assert conversations.thread_of("C_", "5.5") is None
    assert list(conversations.in_channel("C2", 5)) == [paged]
    assert list(conversations.in_channel("C", 5)) == []


def test_equal_ids_of_two_workspaces_are_two_channels_and_two_threads(store: Store) -> None:
    conversations, follow_ups = Conversations(store.engine), FollowUps(store.engine)
    found = {}
    for workspace in ("a_b", "axb"):
        alert = ALERT.model_copy(update={"title": workspace})
        here = ReplyTo(f"{workspace}:C1", "1.0")
        found[workspace] = store.accept(alert, reply_to=here).investigation_id or ""
    paged = store.accept(ALERT).investigation_id or ""
    key = f"{paged}:slack axb"
    store.claim_post(key, paged, owner="w", lease=timedelta(seconds=1))
    store.record_post(key, "axb:C1/5.5")
    for workspace, told in (("a_b", [found["a_b"]]), ("axb", [paged, found["axb"]])):
        assert list(conversations.in_workspace(workspace, f"slack {workspace}", 5)) == told
        assert list(conversations.in_channel(f"{workspace}:C1", 5)) == told
        assert conversations.thread_of(f"{workspace}:C1", "1.0") == found[workspace]
        parent = store.get(found[workspace])
        assert parent is not None
        follow_ups.start(
            parent,
            FollowUpScope(),
            key=workspace,
            question="",
            who="U1",
            reply_to=parent.reply_to,
        )
        before = NOW - timedelta(days=3_000)
        assert follow_ups.count_since(f"{workspace}:C1", "1.0", before) == 1
    conversations.silence("a_b:C1", "1.0", "U1", quiet=True)
    assert not conversations.is_quiet("axb:C1", "1.0")
    assert conversations.thread_of("C1", "1.0") is None


def test_a_further_investigation_is_started_once_and_joins_nothing(store: Store) -> None:
    follow_ups = FollowUps(store.engine)
    parent = store.get(store.accept(ALERT, reply_to=ReplyTo("C1", "1.0")).investigation_id or "")
    assert parent is not None
    scope = FollowUpScope(Window(start=NOW - timedelta(hours=6), end=NOW), ("payments",))

    def start(_: int) -> tuple[str, bool]:
        return follow_ups.start(
            parent, scope, key="C1:7.7", question="more", who="U1", reply_to=ReplyTo("C1", "1.0")
        )

    with ThreadPoolExecutor(6) as pool:
        started = list(pool.map(start, range(12)))
    assert len({name for name, _ in started}) == 1
    assert [new for _, new in started].count(True) == 1
    assert follow_ups.scope(started[0][0]) == scope
    assert follow_ups.started_from(parent.id) == [started[0][0]]
    assert follow_ups.count_since("C1", "1.0", NOW - timedelta(days=999)) == 1
    assert store.accept(ALERT).outcome == "joined"


def test_a_chain_of_follow_ups_begins_with_the_alert_s_own_investigation(store: Store) -> None:
    follow_ups = FollowUps(store.engine)
    first = store.accept(ALERT, reply_to=ReplyTo("C1", "1.0")).investigation_id or ""
    chain = [first]
    for number in range(3):
        parent = store.get(chain[-1])
        assert parent is not None
        name, _ = follow_ups.start(
            parent,
            FollowUpScope(),
            key=f"C1:{number}",
            question="more",
            who="U1",
            reply_to=ReplyTo("C1", "1.0"),
        )
        chain.append(name)
    assert [follow_ups.first(name) for name in chain] == [first] * 4
    assert follow_ups.parent(chain[3]) == chain[2]


def test_the_scope_of_a_further_investigation_has_its_window_and_services() -> None:
    window = Window(start=NOW - timedelta(minutes=30), end=NOW)
    baseline = Window(start=NOW - timedelta(minutes=150), end=window.start)
    scope = Scope(incident=window, baseline=(baseline,), services=("checkout",))
    longer = Window(start=NOW - timedelta(hours=6), end=NOW)
    changed = follow_up_scope(scope, FollowUpScope(longer, ("payments", "checkout")))
    assert changed.incident == longer
    assert changed.baseline == (Window(start=NOW - timedelta(hours=12), end=longer.start),)
    assert changed.services == ("checkout", "payments")
    assert follow_up_scope(scope, None) is scope
    assert follow_up_scope(scope, FollowUpScope()) == scope
