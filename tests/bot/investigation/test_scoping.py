"""Windows and services of an investigation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from faultline.analysis.case.windows import Windows
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.scoping import scope_for, with_objective
from faultline.bot.settings import Settings

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SETTINGS = Settings.model_validate(
    {"services": {"checkout": {"aliases": ["checkout-api"], "depends_on": ["payments"]}}}
)


def alert(service: str | None = None) -> Alert:
    """An alert at AT."""
    return Alert(source="test", title="Slow", started_at=AT, service=service)


def test_the_window_reaches_from_before_the_alert_to_now_and_the_baseline_lies_before_it() -> None:
    scope = scope_for(alert(), SETTINGS, now=AT + timedelta(minutes=1))
    assert scope.incident.start == AT - timedelta(minutes=30)
    assert scope.incident.end == AT + timedelta(minutes=1)
    assert [(b.start, b.end) for b in scope.baseline] == [
        (AT - timedelta(minutes=150), AT - timedelta(minutes=30))
    ]


def test_an_alert_that_is_looked_at_late_has_a_bounded_window() -> None:
    assert scope_for(
        alert(), SETTINGS, now=AT + timedelta(days=200)
    ).incident.end == AT + timedelta(hours=6)


def test_a_clock_behind_that_of_the_vendor_gives_no_empty_window() -> None:
    assert scope_for(alert(), SETTINGS, now=AT - timedelta(hours=2)).incident.end == AT


def test_the_catalogues_name_and_what_it_depends_on_are_in_scope() -> None:
    assert scope_for(alert("Checkout-API"), SETTINGS, now=AT).services == ("checkout", "payments")
    assert scope_for(alert("unknown"), SETTINGS, now=AT).services == ("unknown",)
    assert scope_for(alert(), SETTINGS, now=AT).services == ()


def test_the_catalogue_tells_who_calls_whom_by_its_own_names() -> None:
    services = {
        "web": {"depends_on": ["checkout-api", "bank"]},
        "checkout": {"aliases": ["checkout-api"]},
    }
    scope = scope_for(alert("web"), Settings.model_validate({"services": services}), now=AT)
    assert scope.calls == (("web", "bank"), ("web", "checkout"))


def test_history_is_the_same_hours_of_the_days_before_and_for_metrics_alone() -> None:
    settings = Settings.model_validate({"investigation": {"history_days": 2}})
    scope = scope_for(alert(), settings, now=AT + timedelta(minutes=1))
    recent, *earlier = scope.baseline
    assert [(w.start, w.end) for w in earlier] == [
        (recent.start - timedelta(days=n), scope.incident.end - timedelta(days=n)) for n in (1, 2)
    ]
    assert scope.baseline_logs == scope.baseline_spans == (recent,)
    assert Windows(scope.baseline, scope.incident).recent == recent.start


def test_the_services_objective_goes_with_the_alert_that_brings_none() -> None:
    settings = Settings.model_validate({"services": {"checkout": {"slo_objective": 99.9}}})
    assert with_objective(alert("checkout"), settings).labels == {"slo_objective": "99.9"}
    own = alert("checkout").model_copy(update={"labels": {"slo": "99.5"}})
    assert with_objective(own, settings) == own
    assert with_objective(alert("other"), settings) == alert("other")
