"""Where things stand on the timeline's axis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from faultline.bot.web.investigation_view import read_changes
from faultline.bot.web.timeline import MAX_CHANGES, MAX_ONSETS, TICKS, Change, build_timeline
from tests.analysis.cases import at, write_case
from tests.bot.web.sample_case import ALERT_AT, DEPLOY_AT, DIAGNOSIS, FINDINGS, ONSET, SCOPE

DEPLOY = Change(DEPLOY_AT, "payment", "deploy", "v412", "payment v412")
OLD = Change(ALERT_AT - timedelta(hours=9), "cart", "flag", "new-cart", "")


def test_rows_are_in_the_order_of_time_and_of_their_places_on_the_axis() -> None:
    timeline = build_timeline(ALERT_AT, "slow", SCOPE.incident, DIAGNOSIS, [OLD, DEPLOY])
    assert [e.time for e in timeline.events] == sorted(e.time for e in timeline.events)
    assert [e.x for e in timeline.events] == sorted(e.x for e in timeline.events)
    assert [e.kind for e in timeline.events].count("alert") == 1


def test_the_blamed_change_and_the_first_causes_onsets_are_decisive() -> None:
    timeline = build_timeline(ALERT_AT, "slow", SCOPE.incident, DIAGNOSIS, [OLD, DEPLOY])
    decisive = {(e.kind, e.label, e.finding) for e in timeline.events if e.decisive}
    assert ("change", "payment deploy", "F4") in decisive
    assert ("onset", "payment", "F1") in decisive
    assert all(e.finding != "F2" for e in timeline.events if e.decisive)


def test_an_old_change_is_kept_at_the_edge_instead_of_squashing_the_incident() -> None:
    timeline = build_timeline(ALERT_AT, "slow", SCOPE.incident, DIAGNOSIS, [OLD, DEPLOY])
    old = next(e for e in timeline.events if e.label == "cart flag")
    assert (old.x, old.clipped) == (0, True)
    onset = next(e for e in timeline.events if e.finding == "F1")
    assert timeline.alert_x - onset.x > 5
    assert onset.since_x < onset.x


def test_an_uncited_crowd_is_cut_and_counted() -> None:
    many = tuple(
        FINDINGS[4].model_copy(update={"id": f"X{n}", "onset": ONSET + timedelta(seconds=n)})
        for n in range(40)
    )
    changes = [
        Change(ALERT_AT - timedelta(minutes=n), "s", "deploy", f"c{n}", "") for n in range(20)
    ]
    diagnosis = DIAGNOSIS.model_copy(update={"findings": (*FINDINGS, *many)})
    timeline = build_timeline(ALERT_AT, "slow", SCOPE.incident, diagnosis, changes)
    assert len(timeline.events) == 1 + MAX_ONSETS + MAX_CHANGES
    assert {"F1", "F3"} <= {e.finding for e in timeline.events}
    assert timeline.left_out == (4 + 40 - MAX_ONSETS) + (20 - MAX_CHANGES)


@given(
    st.lists(st.integers(-10_000_000, 10_000_000), max_size=6),
    st.lists(st.integers(-10_000_000, 10_000_000), max_size=6),
)
def test_every_place_lies_on_the_axis_and_ticks_are_few(
    onsets: list[int], changes: list[int]
) -> None:
    findings = tuple(
        FINDINGS[0].model_copy(update={"id": f"F{n}", "onset": ALERT_AT + timedelta(seconds=s)})
        for n, s in enumerate(onsets)
    )
    rows = [
        Change(datetime.fromtimestamp(ALERT_AT.timestamp() + s, UTC), "s", "deploy", str(s), "")
        for s in changes
    ]
    diagnosis = DIAGNOSIS.model_copy(update={"findings": findings, "causes": ()})
    timeline = build_timeline(ALERT_AT, "slow", SCOPE.incident, diagnosis, rows)
    places = [p for e in timeline.events for p in (e.x, e.since_x)] + [t.x for t in timeline.ticks]
    assert all(0 <= p <= 100 for p in places)
    assert len(timeline.ticks) <= TICKS + 1
    assert timeline.incident_width >= 0


def test_rollouts_that_are_long_past_are_not_listed(tmp_path: Path) -> None:
    rows = []
    for days in (90, 3, 1, 0):
        time = at(-1440 * days - 5)
        rows.append({"time": time, "service": "web", "kind": "deploy", "id": f"v{days}"})
    case = write_case(tmp_path, changes=[row | {"title": "x"} for row in rows])
    assert [change.id for change in read_changes(case)] == ["v1", "v0"]
