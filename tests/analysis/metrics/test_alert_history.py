from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.metrics.alert_history import FLAPPING, STOPPED, alarms_of, alert_history
from faultline.analysis.metrics.alert_threshold import KIND as MIS_SET
from faultline.analysis.metrics.alert_threshold import read_threshold
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, series, write_case

ALERT = {"service": "web", "signal": "latency_ms", "title": "web latency above objective"}


def states(
    changes: Sequence[tuple[float, str]], monitor: str = "web latency above objective"
) -> list[dict[str, Any]]:
    return [
        {"monitor": monitor, "service": "web", "state": state, "since": at(m)}
        for m, state in changes
    ]


def flaps(minutes: list[float], lasting: float = 3) -> list[tuple[float, str]]:
    return [change for m in minutes for change in ((m, "Alert"), (m + lasting, "OK"))]


def of_kind(case: Case, kind: str) -> Finding | None:
    return next((f for f in alert_history(case) if f.kind == kind), None)


def bumpy(level: float, bumps: list[float], high: float) -> list[dict[str, Any]]:
    rows = series("web", "latency_ms", level, level)
    for row in rows:
        row["value"] = high if any(row["time"] == at(m) for m in bumps) else row["value"]
    return rows


def test_a_monitor_that_came_back_by_itself_three_times_flaps(tmp_path: Path) -> None:
    case = write_case(
        tmp_path, alert=ALERT, monitors=states([*flaps([-55, -40, -20]), (0, "Alert"), (2, "OK")])
    )
    found = of_kind(case, FLAPPING)
    assert found is not None
    assert found.sentence == (
        "This monitor went off 4 times in 1.4 h and came back by itself each time, after at most "
        "3 min."
    )
    assert found.numbers == {"times": 4, "times_back": 4, "hours": 1.4, "minutes": 3}
    assert "4 min" in found.details.fix


@pytest.mark.parametrize(
    "changes",
    [
        flaps([-55, -40]),
        flaps([-55, -40, -20], lasting=16),
        [*flaps([-55, -40, -20]), (0, "Alert")],
        [(-55, "Alert"), (-50, "renotify"), (-45, "acknowledged"), (-10, "Alert")],
    ],
    ids=["twice only", "each time for long", "this time it stays", "one alarm told often"],
)
def test_a_monitor_does_not_flap(tmp_path: Path, changes: list[tuple[float, str]]) -> None:
    assert of_kind(write_case(tmp_path, alert=ALERT, monitors=states(changes)), FLAPPING) is None


@pytest.mark.parametrize(("fires_for", "flap"), [(15, True), (25, False)])
def test_an_alarm_that_still_fires_is_a_flap_until_it_lasts_twice_as_long(
    tmp_path: Path, fires_for: float, *, flap: bool
) -> None:
    changes = [*flaps([-55, -40, -20], lasting=10), (30 - fires_for, "Alert")]
    case = write_case(tmp_path, alert=ALERT, monitors=states(changes))
    assert (of_kind(case, FLAPPING) is not None) is flap


def test_alarms_of_other_monitors_and_of_yesterday_do_not_count(tmp_path: Path) -> None:
    rows = states(flaps([-55, -40, -20]), "web restarts") + states(
        flaps([-60 * 25, -60 * 26, -60 * 27])
    )
    assert alarms_of(write_case(tmp_path, alert=ALERT, monitors=rows)) == []


@pytest.mark.parametrize(
    "words", [("ALARM", "OK"), ("alerting", "normal"), ("firing", "resolved"), ("Alert", "Warn")]
)
def test_the_states_of_every_vendor_are_read(tmp_path: Path, words: tuple[str, str]) -> None:
    changes = [(m + n * 2, word) for m in (-50, -40, -30) for n, word in enumerate(words)]
    assert (
        of_kind(write_case(tmp_path, alert=ALERT, monitors=states(changes)), FLAPPING) is not None
    )


def test_a_monitor_is_found_by_the_alert_s_label_and_inside_its_title(tmp_path: Path) -> None:
    changes = flaps([-55, -40, -20])
    labelled = {**ALERT, "title": "page", "labels": {"alarm_name": "p99-web"}}
    assert of_kind(
        write_case(tmp_path / "a", alert=labelled, monitors=states(changes, "p99-web")), FLAPPING
    )
    titled = {**ALERT, "title": "[Triggered on {env:prod}] High latency of web"}
    assert of_kind(
        write_case(tmp_path / "b", alert=titled, monitors=states(changes, "High latency of web")),
        FLAPPING,
    )


def test_a_threshold_that_the_baseline_crosses_all_the_time_is_in_the_normal_range(
    tmp_path: Path,
) -> None:
    alert = {**ALERT, "threshold": 90, "observed": 101}
    found = of_kind(
        write_case(tmp_path, alert=alert, metrics=series("web", "latency_ms", 100, 100)), MIS_SET
    )
    assert found is not None
    assert found.sentence == (
        "web latency_ms was above the alert's threshold of 90 ms in 100 % of the baseline: "
        "the threshold lies in its normal range."
    )
    assert found.details.fix.startswith(
        "Raise the threshold to about 102 ms, which it never reached in normal operation"
    )
    assert found.numbers["proposed"] == 102


def test_a_threshold_crossed_now_and_then_may_also_wait_longer(tmp_path: Path) -> None:
    rows = bumpy(100, [-50, -40, -30, -20, -10, 1], 150)
    found = of_kind(
        write_case(tmp_path, alert={**ALERT, "threshold": 140, "observed": 150}, metrics=rows),
        MIS_SET,
    )
    assert found is not None
    assert found.numbers["percent_of_baseline"] == 8.3
    assert "or let it wait for 2 min" in found.details.fix
    # A tenth of the way from the usual level beyond the farthest point.
    assert found.numbers["proposed"] == 155


@pytest.mark.parametrize(
    ("crossed", "in_normal_range"),
    [
        ([-50, -30], False),
        ([-50, -40, -30, -20], True),
        (range(-24, 0), False),
        (range(-36, 0), True),
    ],
    ids=["rarely", "now and then", "at last", "most of the time"],
)
def test_a_threshold_in_the_normal_range_is_crossed_now_and_then_or_mostly(
    tmp_path: Path, crossed: Sequence[float], *, in_normal_range: bool
) -> None:
    alert = {**ALERT, "threshold": 140, "observed": 150}
    case = write_case(tmp_path, alert=alert, metrics=bumpy(100, [*crossed, 1], 150))
    assert (of_kind(case, MIS_SET) is not None) is in_normal_range


@pytest.mark.parametrize(
    ("alert", "rows"),
    [
        ({"threshold": 300, "observed": 900}, series("web", "latency_ms", 100, 900, onset=0)),
        ({"threshold": 140, "observed": 150}, bumpy(100, [-10, -9, -8, -7, -6, -5, 1], 150)),
        ({"threshold": 90, "observed": 900}, series("web", "latency_ms", 100, 900, onset=0)),
        ({"threshold": 90}, []),
    ],
    ids=["really out", "one stretch before the alert", "beyond what the baseline had", "no series"],
)
def test_a_threshold_is_not_mis_set(
    tmp_path: Path, alert: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    assert of_kind(write_case(tmp_path, alert={**ALERT, **alert}, metrics=rows), MIS_SET) is None


def test_a_threshold_below_is_read_downward(tmp_path: Path) -> None:
    alert = {"service": "web", "signal": "success_ratio", "threshold": 0.999, "observed": 0.99}
    case = write_case(
        tmp_path, alert=alert, metrics=series("web", "success_ratio", 0.99, 0.99, noise=0.001)
    )
    found = of_kind(case, MIS_SET)
    assert found is not None
    assert "was below the alert's threshold of 99.9 %" in found.sentence
    assert found.details.fix.startswith("Lower the threshold to about 98.9 %")


def test_a_series_in_another_unit_than_the_alert_says_nothing(tmp_path: Path) -> None:
    alert = {**ALERT, "threshold": 0.3, "observed": 0.9}
    rows = series("web", "latency_ms", 100, 900)
    assert read_threshold(write_case(tmp_path, alert=alert, metrics=rows)) is None


def test_what_the_alert_saw_and_the_series_shows_is_really_out(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 900, onset=0)
    reading = read_threshold(
        write_case(tmp_path, alert={**ALERT, "threshold": 300, "observed": 880}, metrics=rows)
    )
    assert reading is not None
    assert (reading.shown, reading.really_out) == (True, True)


def test_what_the_series_never_shows_is_told_apart(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 110)
    reading = read_threshold(
        write_case(tmp_path, alert={**ALERT, "threshold": 300, "observed": 400}, metrics=rows)
    )
    assert reading is not None
    assert (reading.shown, reading.really_out) == (False, False)


def test_a_signal_that_stopped_while_others_go_on_is_the_finding(tmp_path: Path) -> None:
    stopped = [r for r in series("web", "latency_ms", 100, 100) if r["time"] < at(5)]
    others = series("web", "cpu_percent", 20, 20) + series("api", "cpu_percent", 20, 20)
    found = of_kind(write_case(tmp_path, alert=ALERT, metrics=stopped + others), STOPPED)
    assert found is not None
    assert found.sentence == (
        "The latency of web has had no data for the last 25 min, while 1 other series of the "
        "service goes on."
    )
    assert found.onset is not None
    assert (found.onset - START).total_seconds() == 4 * 60


@pytest.mark.parametrize(("missing_min", "is_stopped"), [(2.5, False), (3.75, True)])
def test_minutes_without_a_point_show_that_a_fast_signal_stopped(
    tmp_path: Path, missing_min: float, *, is_stopped: bool
) -> None:
    rows = series("web", "latency_ms", 100, 100, step=0.25)
    rows = [row for row in rows if row["time"] < at(30 - missing_min)]
    rows += series("web", "cpu_percent", 20, 20, step=0.25)
    case = write_case(tmp_path, alert=ALERT, metrics=rows)
    assert (of_kind(case, STOPPED) is not None) is is_stopped


def test_a_service_of_which_nothing_comes_any_more_is_told_as_such(tmp_path: Path) -> None:
    stopped = [r for r in series("web", "latency_ms", 100, 100) if r["time"] < at(5)]
    found = of_kind(
        write_case(tmp_path, alert=ALERT, metrics=stopped + series("api", "cpu", 20, 20)), STOPPED
    )
    assert found is not None
    assert found.sentence.endswith("and the service sends nothing else either.")


def test_a_collection_that_ends_early_for_all_is_no_stopped_signal(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 100) + series("api", "cpu", 20, 20)
    early = [row for row in rows if row["time"] < at(5)]
    assert of_kind(write_case(tmp_path, alert=ALERT, metrics=early), STOPPED) is None


def test_hostile_names_do_not_break_the_sentence(tmp_path: Path) -> None:
    name = "web\u202e\n<script>" + "x" * 500
    alert = {**ALERT, "service": name, "threshold": 90, "observed": 101}
    case = write_case(tmp_path, alert=alert, metrics=series(name, "latency_ms", 100, 100))
    found = alert_history(case)
    assert len(found) == 2
    for finding in found:
        assert "\n" not in finding.sentence
        assert "\u202e" not in finding.sentence
        assert len(finding.sentence) < 300
