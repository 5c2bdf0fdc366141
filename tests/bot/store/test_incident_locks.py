"""A host that is lost while it accepts alerts stands in the way of their incident alone, and not
for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store import admission_state
from faultline.bot.store.admission_state import WAIT_S, IncidentBusy, locks_of
from faultline.bot.store.admitting import Admission
from faultline.bot.store.connections import Waits, connect
from faultline.bot.store.store import Arrival, ReplyTo, Store
from faultline.bot.store.tables import InvestigationRow
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.black_hole import black_hole

NOW = datetime.now(UTC)
IDLE_S, LONG_S = 3.0, 20.0
SERVICES = {
    "checkout": ServiceSettings(depends_on=("payments",)),
    "payments": ServiceSettings(),
    "search": ServiceSettings(),
}
POLICY = Policy.of(Settings(services=SERVICES, alerts=AlertSettings(groups="on")))
Lose = Callable[[Arrival], None]


def arrival(service: str, title: str = "errors above 5 %") -> Arrival:
    alert = Alert(source="datadog", title=f"{service}: {title}", started_at=NOW, service=service)
    return Arrival(alert, None, ReplyTo(), None, False)


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    engine = connect(postgres_url)
    yield Store(engine, policy=POLICY)
    engine.dispose()


@pytest.fixture
def idle_s() -> float:
    """After how long the database ends a session that was lost."""
    return IDLE_S


@pytest.fixture
def lose(postgres_url: str, idle_s: float) -> Iterator[Lose]:
    """Loses a web host inside the transaction in which it accepts the alert."""
    with ExitStack() as stack:
        hole = stack.enter_context(black_hole(postgres_url))
        engine = connect(hole.url, Waits(idle_s=idle_s, transaction_s=idle_s + 0.5))

        def lose(one: Arrival) -> None:
            session = Session(engine)
            stack.callback(engine.dispose)
            assert not locks_of([one], POLICY).try_all(session)
            Admission(POLICY).admit_all(session, [one], NOW)
            session.flush()
            hole.fall_silent()
            stack.callback(session.invalidate)

        yield lose


@contextmanager
def without_a_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A block that must not wait for a lock: that would take longer than a busy machine does."""
    with monkeypatch.context() as patched:
        patched.setattr(admission_state, "WAIT_S", LONG_S)
        began = time.monotonic()
        yield
        assert time.monotonic() - began < LONG_S / 2


@pytest.mark.parametrize("idle_s", [LONG_S])
def test_alerts_of_other_incidents_are_accepted_at_once(
    store: Store, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(arrival("checkout"))
    with without_a_wait(monkeypatch):
        assert store.accept_all([arrival("search")])[0].outcome == "started"


@pytest.mark.parametrize("idle_s", [LONG_S])
def test_a_related_alert_is_accepted_after_a_short_wait(
    store: Store, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(arrival("checkout"))
    began = time.monotonic()
    assert store.accept_all([arrival("payments")])[0].outcome == "started"
    assert time.monotonic() - began >= WAIT_S
    # A lock that timed out is not waited for again.
    with without_a_wait(monkeypatch):
        assert store.accept_all([arrival("payments", "latency")])[0].outcome == "grouped"


def test_the_alert_that_was_lost_is_refused_until_its_session_ends(
    store: Store, lose: Lose
) -> None:
    one = arrival("checkout")
    lose(one)
    began = time.monotonic()
    with pytest.raises(IncidentBusy) as refused:
        store.accept_all([arrival("search"), one])
    assert refused.value.blocked == {1}
    while True:
        try:
            accepted = store.accept_all([one])
            break
        except IncidentBusy:
            assert time.monotonic() - began < IDLE_S + 2
            time.sleep(0.05)
    assert accepted[0].outcome == "started"
    assert store.count() == 1


def test_a_row_that_a_lost_worker_holds_refuses_its_incident_alone(
    store: Store, postgres_url: str
) -> None:
    first = store.accept_all([arrival("checkout")])[0]
    assert first.investigation_id is not None
    engine = connect(postgres_url)
    with Session(engine) as worker:
        worker.get_one(InvestigationRow, first.investigation_id, with_for_update=True)
        with pytest.raises(IncidentBusy):
            store.accept_all([arrival("checkout", "latency")])
        assert store.accept_all([arrival("search")])[0].outcome == "started"
    assert store.accept_all([arrival("checkout", "latency")])[0].outcome == "grouped"
    engine.dispose()


def test_the_number_of_locks_is_bounded() -> None:
    many = tuple(f"s{n}" for n in range(3000))
    services = {"hub": ServiceSettings(depends_on=many)} | {n: ServiceSettings() for n in many}
    policy = Policy.of(Settings(services=services, alerts=AlertSettings(groups="on")))
    locks = locks_of([arrival(name) for name in many[:64]], policy)
    assert len(locks.about) <= 512
    assert len(locks.alert_keys) == 64
