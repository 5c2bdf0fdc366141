"""The windows of an investigation where the sources hold less than the settings ask for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.bot.investigation.scoping import fitted, fitted_to_history, scope_for
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ALERT = Alert(source="test", title="Slow", started_at=AT)


def scope(**settings: float) -> Scope:
    """That of an alert at AT."""
    given = Settings.model_validate({"investigation": settings})
    return scope_for(ALERT, given, now=AT + timedelta(minutes=1))


def before(minutes: float) -> datetime:
    return AT - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("history", "baseline", "incident"),
    [(40, 10, 30), (20, 10, 10), (15, 7.5, 7.5), (4, 2, 2)],
)
def test_of_a_short_history_the_baseline_gets_half_or_ten_minutes(
    history: float, baseline: float, incident: float
) -> None:
    found = fitted(scope(), AT, before(history))
    assert found.baseline == (Window(start=before(history), end=before(incident)),)
    assert found.baseline[0].seconds == 60 * baseline
    assert found.incident == Window(start=before(incident), end=AT + timedelta(minutes=1))
    assert found.data_since == before(history)


def test_where_enough_is_known_nothing_is_said() -> None:
    assert fitted(scope(), AT, before(150)) == scope()
    long = fitted(scope(), AT, before(100))
    assert (long.baseline[0].start, long.data_since) == (before(100), None)


@pytest.mark.parametrize("history", [3.9, 0, -20])
def test_where_nothing_can_be_compared_the_windows_stay_and_the_scope_says_why(
    history: float,
) -> None:
    found = fitted(scope(), AT, before(history))
    assert found == scope().model_copy(update={"data_since": before(history)})


def test_earlier_days_stay_and_logs_get_the_same_baseline() -> None:
    found = fitted(scope(history_days=1), AT, before(20))
    assert len(found.baseline) == 2
    assert found.baseline_logs == found.baseline_spans == found.baseline[:1]


class Source:
    """A connector that knows since when it has data, or fails to say."""

    name = "source"
    limits = Limits()

    def __init__(self, since: datetime | Exception | None, *kinds: EvidenceKind) -> None:
        self.since = since
        self.kinds = kinds

    async def data_since(self, window: Window) -> datetime | None:
        assert window == Window(start=before(150), end=AT + timedelta(minutes=1))
        if isinstance(self.since, Exception):
            raise self.since
        return self.since

    async def collect(self, request: Request) -> Collected:
        raise NotImplementedError

    async def check(self) -> Check:
        raise NotImplementedError


def known(*sources: Source) -> Scope:
    return asyncio.run(fitted_to_history(ALERT, scope(), sources, deadline_s=5.0))


def test_the_oldest_of_the_sources_with_metrics_counts() -> None:
    young, older = Source(before(20), "metrics"), Source(before(40), "metrics")
    assert known(young, older).data_since == before(40)
    assert known(young, Source(before(150), "logs")).data_since == before(20)
    assert known(Source(before(15), "logs")).data_since == before(15)


def test_a_source_that_cannot_say_changes_nothing() -> None:
    failing = Source(ConnectorError("source", "query", "is away"), "metrics")
    assert known(failing, Source(None, "metrics")) == scope()
    assert known() == scope()
