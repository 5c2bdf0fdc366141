"""The chart of the decisive signal."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib import image

from analysis.case.folder import Case, read_case, write_json
from analysis.case.tables import write_table
from analysis.diagnosis import diagnose
from analysis.vocabulary import Diagnosis, Finding, Impact, Scope, Window
from bot.answer.charts import decisive_chart
from bot.answer.decisive_signal import decisive_finding, phases_of, signal_of
from tests.bot.answer.targets.answers import ALERT_AT, ONSET, a_diagnosis, an_alert

BASELINE = Window(start=ALERT_AT - timedelta(hours=2), end=ONSET - timedelta(minutes=3))
INCIDENT = Window(start=ONSET - timedelta(minutes=3), end=ALERT_AT + timedelta(minutes=5))


@dataclass(frozen=True)
class Made:
    """A case written by hand."""

    case: Case

    def png(self, diagnosis: Diagnosis) -> np.ndarray:
        """The chart's pixels."""
        drawn = decisive_chart(self.case, diagnosis)
        assert drawn is not None
        assert drawn.startswith(b"\x89PNG")
        return np.asarray(image.imread(io.BytesIO(drawn), format="png"))


def a_case(
    folder: Path, *, level: float = 0.31, title: str = "checkout fails", service: str = "payments"
) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "alert.json", an_alert().model_copy(update={"title": title}))
    write_json(folder / "scope.json", Scope(incident=INCIDENT, baseline=(BASELINE,)))
    times = [BASELINE.start + timedelta(minutes=n) for n in range(125)]
    values = [0.01 + 0.001 * (n % 5) if t < ONSET else level for n, t in enumerate(times)]
    metrics = pl.DataFrame(
        {"time": times, "service": service, "signal": "error_ratio", "value": values}
    )
    write_table(folder, "metrics", metrics)
    changes = {
        "time": [ONSET - timedelta(minutes=1)],
        "service": [service],
        "kind": ["deploy"],
        "id": ["v2"],
        "title": ["x"],
    }
    write_table(folder, "changes", pl.DataFrame(changes))
    return Made(read_case(folder))


def test_the_chart_has_twice_the_size_at_which_slack_shows_it(tmp_path: Path) -> None:
    assert a_case(tmp_path).png(a_diagnosis()).shape[:2] == (720, 1600)


def test_other_data_give_another_picture_and_the_same_data_the_same(tmp_path: Path) -> None:
    low, again, high = (
        a_case(tmp_path / n, level=v) for n, v in (("a", 0.05), ("b", 0.05), ("c", 0.31))
    )
    assert np.array_equal(low.png(a_diagnosis()), again.png(a_diagnosis()))
    assert not np.array_equal(low.png(a_diagnosis()), high.png(a_diagnosis()))


def test_the_signal_in_view_has_its_baseline_its_onset_and_the_blamed_change(
    tmp_path: Path,
) -> None:
    diagnosis = a_diagnosis()
    finding = decisive_finding(diagnosis)
    assert finding is not None
    assert finding.id == "F1"
    signal = signal_of(a_case(tmp_path).case, diagnosis, finding)
    assert signal is not None
    assert signal.unit == "ratio"
    assert signal.onset == ONSET
    assert [(c.label, c.blamed) for c in signal.changes] == [("deploy v2", True)]
    assert signal.normal == pytest.approx((0.01, 0.012, 0.014))
    assert signal.times[0] < ONSET.timestamp() < signal.times[-1]


def test_a_signal_that_the_case_does_not_hold_gives_no_chart(tmp_path: Path) -> None:
    assert decisive_chart(a_case(tmp_path, service="other").case, a_diagnosis()) is None
    nothing = a_diagnosis(causes=(), findings=(), impact=Impact(sentence=""))
    assert decisive_chart(a_case(tmp_path / "b").case, nothing) is None


@pytest.mark.parametrize("text", ["$\\frac{", "漢字 \U0001f534 \u202eevil", "_" * 300, "a\nb"])
def test_foreign_names_are_drawn_as_they_are(tmp_path: Path, text: str) -> None:
    made = a_case(tmp_path, service=text, title=text)
    finding = a_diagnosis().findings[0]
    named = finding.model_copy(
        update={
            "subject": text,
            "series": {"table": "metrics", "service": text, "signal": "error_ratio"},
        }
    )
    assert made.png(a_diagnosis(findings=(named,))).shape[:2] == (720, 1600)


def test_missing_and_infinite_values_are_left_out(tmp_path: Path) -> None:
    made = a_case(tmp_path)
    odd = made.case.metrics.with_columns(
        pl.when(pl.col("time") > ONSET).then(float("inf")).otherwise(pl.col("value")).alias("value")
    )
    write_table(tmp_path, "metrics", odd)
    assert Made(read_case(tmp_path)).png(a_diagnosis()).shape[:2] == (720, 1600)


def test_of_several_labelled_series_the_one_whose_level_is_quoted_is_drawn(tmp_path: Path) -> None:
    made = a_case(tmp_path)
    quiet = made.case.metrics.with_columns(
        pl.lit(0.01).alias("value"), pl.lit("pod=b").alias("labels")
    )
    write_table(
        tmp_path,
        "metrics",
        pl.concat([made.case.metrics.with_columns(pl.lit("pod=a").alias("labels")), quiet]),
    )
    diagnosis = a_diagnosis()
    signal = signal_of(read_case(tmp_path), diagnosis, diagnosis.findings[0])
    assert signal is not None
    assert signal.values.max() == pytest.approx(0.31)


def straggler(**details: object) -> Finding:
    return Finding(
        id="F1",
        kind="straggler",
        subject="rank 3",
        strength=0.9,
        sentence="Rank 3 makes the others wait for 38 % of each step.",
        details={"rank": 3, "blame_share": 0.9, **details},
    )


def test_a_stragglers_phases_are_drawn_longest_difference_first(tmp_path: Path) -> None:
    finding = straggler(
        phases_ms={"forward": 10.0, "data loading": 86.0},
        others_phases_ms={"forward": 11.0, "data loading": 1.3},
    )
    phases = phases_of(finding)
    assert phases is not None
    assert list(phases.ms.items()) == [("data loading", (86.0, 1.3)), ("forward", (10.0, 11.0))]
    steps = a_diagnosis().findings[0].model_copy(update={"id": "F2", "signal": "step_time"})
    with_steps = a_diagnosis(findings=(finding, steps))
    made = a_case(tmp_path)
    assert not np.array_equal(made.png(with_steps), made.png(a_diagnosis(findings=(finding,))))


@pytest.mark.parametrize(
    "details", [{}, {"phases_ms": {"forward": 1.0}}, {"phases_ms": [1], "others_phases_ms": [2]}]
)
def test_details_that_are_no_phases_are_no_chart(details: dict[str, object]) -> None:
    assert phases_of(straggler(**details)) is None


@cache
def recorded(shared: Path, name: str) -> tuple[Case, Diagnosis]:
    case = read_case(shared / "cases" / name)
    return case, diagnose(case)


@pytest.mark.parametrize(
    "name", ["rootcausebench-01", "online-boutique-04", "petshop-03", "train-ticket-02"]
)
def test_recorded_incidents_have_a_chart(shared: Path, name: str) -> None:
    assert decisive_chart(*recorded(shared, name)) is not None


def test_every_kind_of_series_of_a_recorded_incident_can_be_drawn(shared: Path) -> None:
    drawn = set()
    for name in ("rootcausebench-01", "train-ticket-02"):
        case, diagnosis = recorded(shared, name)
        for finding in diagnosis.findings:
            if (finding.kind, finding.series.get("table")) not in drawn:
                alone = diagnosis.model_copy(update={"causes": (), "findings": (finding,)})
                if decisive_chart(case, alone) is not None:
                    drawn.add((finding.kind, finding.series.get("table")))
    assert {table for _, table in drawn} == {"metrics", "logs", "spans"}
