"""Retention and deletion: what is due goes everywhere, what runs or is open stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.deleting import delete_investigation
from faultline.bot.operating.retention import Retention, sweep_lock
from faultline.bot.operating.sweep import Sweep
from faultline.bot.settings import Settings
from faultline.bot.store.admission_state import MIN_RETENTION
from faultline.bot.store.changes import ReportedChange, ReportedChanges
from faultline.bot.store.conversations import Conversations, NewQuestion
from faultline.bot.store.listing import Labels, Listing, ListingFilter
from faultline.bot.store.memory import LearnedCall, LearnedCalls, Memory
from faultline.bot.store.store import Delivery
from faultline.bot.store.tables import Base, DeliveryRow, InvestigationRow, ProgressRow
from faultline.bot.store.visitors import AuditEntry, AuditFilter, AuditLog
from tests.bot.operating.installation import LIVING, NOW, Installation, make_case

DAY = timedelta(days=1)


def sweep(installation: Installation, **days: float) -> dict[str, int]:
    """With the defaults but for these."""
    given = {"store": installation.settings.store.model_dump(), "retention": days}
    settings = Settings.model_validate(given)
    return dict(
        Sweep(settings, installation.store, installation.cases, installation.rows, NOW).run()
    )


def remembered(installation: Installation, name: str, title: str) -> None:
    """Memory keeps it."""
    one = installation.store.get(name)
    assert one is not None
    kept = EarlierInvestigation(
        id=name, at=one.accepted_at, fingerprint=one.alert.fingerprint, title=title,
            services=("checkout",),
        system=None, verdict="cause_found", headline="cold cache", causes=(), case=None,
    )  # fmt: skip
    Memory(installation.store.engine).remember(kept, one.alert)


def full(installation: Installation, title: str, ago: timedelta) -> str:
    """An investigation that has left something in every place."""
    name, store = installation.alert(title, ago=ago), installation.store
    store.add_progress(name, "analyze", "7 findings", key="analyze")
    with Session(store.engine) as session, session.begin():
        session.execute(
            update(ProgressRow).where(ProgressRow.investigation_id == name).values(at=NOW - ago)
        )
    store.claim_post(f"{name}:slack", name, owner=LIVING, lease=DAY)
    store.record_post(f"{name}:slack", "C1/17.5")
    Labels(store.engine).write(name, right=True, who="Ann")
    remembered(installation, name, title)
    question = NewQuestion(
        f"C1:{name}", "E", "question", "thread", "why?", "U1", "C1", "17", "18", None, name
    )
    talk = Conversations(store.engine)
    talk.take(question, now=NOW - ago)
    talk.finish(question.id, "answered")
    installation.workflow(name, "SUCCESS", ago=ago)
    installation.step(name, 1, "open", ago=ago)
    installation.workflow(f"question:C1:{name}", "SUCCESS", ago=ago)
    make_case(installation, name)
    installation.ended(name, ago=ago)
    return name


def rows_about(installation: Installation) -> dict[str, int]:
    """How many rows each table of the store has."""
    with Session(installation.store.engine) as session:
        tables = Base.metadata.sorted_tables
        found = {t.name: session.scalar(select(func.count()).select_from(t)) or 0 for t in tables}
    return {name: count for name, count in found.items() if count}


def test_an_old_investigation_goes_everywhere_and_a_young_one_stays(
    installation: Installation,
) -> None:
    full(installation, "old latency", 500 * DAY)
    young = full(installation, "young latency", 5 * DAY)
    done = sweep(installation)
    assert done["investigations"] == 1
    left = rows_about(installation)
    assert {
        left[t]
        for t in ("investigations", "progress", "posts", "labels", "remembered", "questions")
    } == {1}
    assert installation.cases.ids() == [young]
    assert {w.id for w in installation.rows.of(young)} == {young}
    # The full-text index forgot it, too.
    assert Listing(installation.store.engine).count(ListingFilter(words="latency")) == 1
    assert sweep(installation) == {}, "the second sweep finds nothing to do"


def test_evidence_goes_before_the_answer_does(installation: Installation) -> None:
    name = full(installation, "latency", 100 * DAY)
    done = sweep(installation)
    assert (done["cases"], done["conversations"], done["progress"]) == (1, 1, 1)
    one = installation.store.get(name)
    assert one is not None
    assert one.headline == "the cache is cold"
    assert installation.cases.ids() == []
    assert installation.rows.of(name) == []


def test_what_runs_waits_or_is_open_stays_however_old(installation: Installation) -> None:
    names = [installation.alert(f"alert {n}", ago=500 * DAY) for n in range(5)]
    running, again, quiet, busy, _waiting = names
    installation.ended(again, ago=500 * DAY)
    installation.change(again, wants_run=True)
    installation.change(running, status="running", dispatched_at=NOW, started_at=NOW - 500 * DAY)
    installation.ended(quiet, ago=500 * DAY)
    installation.change(quiet, quiet_until=NOW + DAY, channel="C1")
    installation.ended(busy, ago=500 * DAY)
    installation.workflow(f"{busy}:slack", "PENDING", queue="replies-slack", ago=500 * DAY)
    for name in names:
        make_case(installation, name)
        installation.store.add_progress(name, "scope", "asking", key="scope")
    done = sweep(installation)
    assert "investigations" not in done
    left = {w.id for w in installation.rows.active()}
    assert left == {f"{busy}:slack"}
    assert rows_about(installation)["investigations"] == 5
    assert set(names) - set(installation.cases.ids()) <= {busy}


def test_an_alert_that_is_open_keeps_its_investigation_while_repeats_join(
    installation: Installation,
) -> None:
    name = installation.alert(ago=timedelta(hours=2))
    installation.ended(name, ago=timedelta(hours=2))
    one = installation.store.get(name)
    assert one is not None
    installation.change(name, open_fingerprint=one.alert.fingerprint)
    soon = {"investigations_days": 0.01}
    assert "investigations" not in sweep(installation, **soon)
    installation.change(name, open_fingerprint=None)
    assert sweep(installation, **soon)["investigations"] == 1


def test_ids_of_deliveries_stay_as_long_as_a_repetition_must_be_known(
    installation: Installation,
) -> None:
    store, name = installation.store, installation.alert()
    alert = store.get(name).alert  # type: ignore[union-attr]
    for days in (1, 399, 401, 500):
        store.accept(alert, delivery=Delivery("pagerduty", f"d{days}"), now=NOW - days * DAY)
    sweep(installation)
    with Session(store.engine) as session:
        left = set(session.scalars(select(DeliveryRow.delivery_id)))
    assert left == {"d1", "d399"}
    least = MIN_RETENTION / DAY
    with pytest.raises(ValueError, match=f"greater than or equal to {least:g}"):
        Settings.model_validate({"retention": {"deliveries_days": least - 1}})


def test_the_engine_forgets_what_ended_and_nothing_else(installation: Installation) -> None:
    for number in range(450):
        installation.workflow(f"old{number}", "ERROR" if number % 2 else "SUCCESS", ago=20 * DAY)
    installation.workflow("young", "SUCCESS", ago=5 * DAY)
    installation.workflow("stuck", "PENDING", ago=300 * DAY)
    assert sweep(installation)["engine"] == 450
    assert [len(installation.rows.of(name)) for name in ("young", "stuck", "old1")] == [1, 1, 0]


def test_folders_of_nobody_go_by_their_age_and_foreign_ones_stay(
    installation: Installation,
) -> None:
    for name in (
        "20200101-000000-abcdef",
        "traces-1577836800000000-0123456789ab",
        "somebody-elses",
    ):
        make_case(installation, name)
    assert sweep(installation)["cases"] == 2
    assert installation.cases.ids() == ["somebody-elses"]


def test_nothing_is_deleted_where_a_day_is_zero(installation: Installation) -> None:
    full(installation, "latency", 5000 * DAY)
    kept = {"investigations_days": 0, "cases_days": 0, "conversations_days": 0, "progress_days": 0}
    assert set(sweep(installation, **kept)) <= {"engine"}


def test_the_audit_and_logins_are_swept_where_nobody_looks(installation: Installation) -> None:
    visits = AuditLog(installation.store.engine, retention=1000 * DAY)
    for days in (1, 200):
        visits.write(
            AuditEntry("ann", "Ann", "admin", "looked", None, "10.0.0.1", 200), NOW - days * DAY
        )
    assert sweep(installation)["audit"] == 1
    assert len(visits.read(AuditFilter())) == 1


def test_one_worker_of_all_sweeps(installation: Installation) -> None:
    settings, store = installation.settings, installation.store
    full(installation, "latency", 500 * DAY)
    retention = Retention(settings, store, installation.cases)
    with sweep_lock(settings, store) as mine:
        assert mine
        assert retention.sweep() == {}
    assert retention.sweep()["investigations"] == 1


def test_a_sweep_that_is_cut_short_is_finished_by_the_next(installation: Installation) -> None:
    name = full(installation, "latency", 500 * DAY)
    installation.cases.delete(name, "")  # it had come as far as this
    assert sweep(installation)["investigations"] == 1


def test_deleting_one_says_what_it_would_do_then_does_it_and_is_audited(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    name, other = full(installation, "latency", DAY), full(installation, "errors", DAY)
    installation.store.accept(
        installation.store.get(name).alert, delivery=Delivery("pagerduty", "d1"), now=NOW
    )  # type: ignore[union-attr]
    before = rows_about(installation)
    delete_investigation(installation.settings, name, sure=False)
    assert "would delete" in capsys.readouterr().out
    assert rows_about(installation) == before
    delete_investigation(installation.settings, name, sure=True)
    assert "stays at vendors: slack C1/17.5" in capsys.readouterr().out
    assert installation.store.get(name) is None
    assert name not in installation.cases.ids()
    assert installation.rows.of(name) == installation.rows.of(f"question:C1:{name}") == []
    assert Memory(installation.store.engine).get(name) is None
    assert installation.store.get(other) is not None
    line = AuditLog(installation.store.engine, retention=DAY).read(AuditFilter())[0]
    assert (line.action, line.investigation_id, line.address) == ("deleted", name, "command line")
    with pytest.raises(FaultlineError, match="no investigation"):
        delete_investigation(installation.settings, name, sure=True)


@pytest.mark.usefixtures("one_worker")
def test_what_a_living_worker_has_is_not_deleted(installation: Installation) -> None:
    name = installation.alert()
    installation.workflow(name, "PENDING", executor=LIVING)
    with pytest.raises(FaultlineError, match="is being worked on"):
        delete_investigation(installation.settings, name, sure=True)
    assert installation.store.get(name) is not None
    assert InvestigationRow.__tablename__ in rows_about(installation)


def test_what_only_the_engine_knows_can_be_deleted(installation: Installation) -> None:
    installation.workflow("20260101-000000-abcdef", "PENDING", executor="worker-9-dead")
    delete_investigation(installation.settings, "20260101-000000-abcdef", sure=True)
    assert installation.rows.of("20260101-000000-abcdef") == []
    assert Path(installation.cases.location).is_dir()


def test_reported_changes_go_when_they_are_old(installation: Installation) -> None:
    changes = ReportedChanges(installation.store.engine)
    told = [
        ReportedChange(f"v{days}", NOW - days * DAY, "web", "deploy", "Deploy") for days in (1, 91)
    ]
    changes.report(told)
    assert sweep(installation)["changes"] == 1
    assert [one.id for one in changes.between(NOW - 400 * DAY, NOW)] == ["v1"]


def test_learned_calls_go_when_nobody_has_seen_them_for_long(installation: Installation) -> None:
    calls = LearnedCalls(installation.store.engine)
    calls.learn(LearnedCall("a", f"b{n}", "mesh", NOW - n * DAY, "I1") for n in (1, 91))
    assert sweep(installation)["calls"] == 1
    assert [one.callee for one in calls.everywhere()] == ["b1"]
