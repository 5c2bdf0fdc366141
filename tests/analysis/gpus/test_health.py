"""What is wrong with one GPU is found beside its healthy neighbours, and a healthy fleet gives
nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.gpus.errors import xid_meaning
from faultline.analysis.gpus.health import ANALYZER, gpu_health
from faultline.analysis.kinds.training_causes import TRAINING_CAUSES
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.vocabulary import Finding, Verdict
from tests.analysis.cases import START, at, series, write_case
from tests.analysis.gpu_fleets import JOB, PATTERNS, SimulatedFleet, case_of, healthy
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given

ROW = 13
"""GPU 5 of node-1, rank 13 in a fleet of 4 x 8."""


def only(fleet: SimulatedFleet, *, ranks: bool = True) -> Finding:
    """The one finding of a fleet."""
    (finding,) = gpu_health(case_of(fleet, ranks=ranks))
    said = finding.sentence
    for name in (*sorted(fleet.hosts, reverse=True), JOB, "mlx5_0/1"):
        said = said.replace(name, "`name`")
    assert quoted_numbers_are_given(said, dict(finding.numbers)), (
        finding.sentence,
        finding.numbers,
    )
    assert finding.details.fix
    assert finding.details.source
    assert "{" not in finding.details.fix
    return finding


def onset(finding: Finding) -> float:
    """Minutes from the alert."""
    assert finding.onset is not None
    return (finding.onset - START).total_seconds() / 60


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", [101, 202])
def test_a_healthy_fleet_gives_nothing(seed: int, pattern: str) -> None:
    fleet = healthy(seed, pattern, hosts=2 + seed % 2, per_host=4)
    assert [f.sentence for f in gpu_health(case_of(fleet))] == []


@pytest.mark.parametrize(
    ("bit", "word"),
    [(0x40, "thermal (hardware)"), (0x80, "power brake"), (0x20, "thermal (software)")],
)
def test_a_throttled_gpu_is_named_with_its_reason_host_and_rank(bit: int, word: str) -> None:
    fleet = healthy(7, "steady")
    late = fleet.after(4)
    fleet.put(gs.SM_CLOCK, ROW, late, 1005.0)
    fleet.signals[gs.EVENT_REASONS] = np.full_like(fleet.signals[gs.SM_CLOCK], 4.0)
    fleet.put(gs.EVENT_REASONS, ROW, late, float(bit | 4))
    finding = only(fleet)
    assert (finding.kind, finding.subject, finding.signal) == (
        "gpu_throttled",
        "rank 13",
        gs.SM_CLOCK,
    )
    assert finding.sentence.startswith("rank 13 (GPU 5 of node-1) runs at 1005 MHz")
    assert word in finding.sentence
    assert 3 <= onset(finding) <= 6
    assert finding.strength >= 0.8
    assert "node-1" in finding.details.fix


def test_without_a_rank_the_gpu_is_the_subject() -> None:
    fleet = healthy(7, "steady")
    fleet.put(gs.XID, ROW, fleet.after(3), 79.0)
    finding = only(fleet, ranks=False)
    assert finding.subject == "node-1/gpu5"
    assert finding.sentence.startswith("node-1/gpu5 has Xid 79: ")
    assert "fallen off the bus" in finding.sentence


def test_a_lower_clock_without_reason_counts_only_far_beyond_the_differences_of_silicon() -> None:
    fleet = healthy(7, "steady")
    fleet.signals.pop(gs.EVENT_REASONS, None)
    usual = fleet.signals[gs.SM_CLOCK][ROW].copy()
    fleet.put(gs.SM_CLOCK, ROW, fleet.after(4), 0.85 * usual[fleet.after(4)])
    assert gpu_health(case_of(fleet)) == []
    fleet.put(gs.SM_CLOCK, ROW, fleet.after(4), 0.55 * usual[fleet.after(4)])
    fleet.put(gs.POWER, ROW, fleet.after(4), 300.0)
    assert only(fleet).kind == "gpu_throttled"


def test_heat_is_a_reason_where_the_exporter_gives_none() -> None:
    fleet = healthy(7, "steady")
    fleet.signals.pop(gs.EVENT_REASONS, None)
    late = fleet.after(4)
    fleet.put(gs.SM_CLOCK, ROW, late, 0.8 * fleet.signals[gs.SM_CLOCK][ROW][late])
    fleet.put(gs.TEMPERATURE, ROW, late, 90.0)
    finding = only(fleet)
    assert (finding.kind, finding.subject, finding.details.written()["events"]) == (
        "gpu_throttled",
        "rank 13",
        ["thermal"],
    )


def test_the_rank_that_works_while_the_others_wait_is_not_throttled() -> None:
    fleet = healthy(3, "uneven_load")
    assert gpu_health(case_of(fleet)) == []


def test_a_gpu_with_a_lower_power_limit_than_the_others_is_named() -> None:
    fleet = healthy(7, "steady")
    fleet.signals[gs.EVENT_REASONS] = np.full_like(fleet.signals[gs.SM_CLOCK], 4.0)
    fleet.put(gs.SM_CLOCK, ROW, fleet.after(2), 1200.0)
    fleet.put(gs.POWER, ROW, fleet.after(2), 400.0)
    finding = only(fleet)
    assert (finding.kind, finding.details.written()["events"]) == ("gpu_throttled", ["power cap"])


def test_what_was_throttled_before_the_incident_counts_little() -> None:
    fleet = healthy(7, "steady")
    always = fleet.after(-200)
    fleet.signals[gs.EVENT_REASONS] = np.full_like(fleet.signals[gs.SM_CLOCK], 4.0)
    fleet.put(gs.SM_CLOCK, ROW, always, 1300.0)
    fleet.put(gs.EVENT_REASONS, ROW, always, 0x24)
    finding = only(fleet)
    assert finding.strength < 0.4
    assert finding.onset is None
    assert "as before the incident" in finding.sentence


def test_a_rack_on_its_power_brake_is_one_finding_of_each_host_and_of_the_job_when_it_is_most_of_it() -> (  # noqa: E501
    None
):
    fleet = healthy(7, "steady")
    fleet.signals[gs.EVENT_REASONS] = np.full_like(fleet.signals[gs.SM_CLOCK], 4.0)
    for row in range(8, 16):
        fleet.put(gs.SM_CLOCK, row, fleet.after(4), 990.0)
        fleet.put(gs.EVENT_REASONS, row, fleet.after(4), 0x80)
    finding = only(fleet)
    assert finding.subject == "node-1"
    assert "Each of 8 GPUs" in finding.sentence
    assert finding.details.written()["ranks"] == list(range(8, 16))
    for row in range(32):
        fleet.put(gs.SM_CLOCK, row, fleet.after(4), 990.0)
        fleet.put(gs.EVENT_REASONS, row, fleet.after(4), 0x80)
    finding = only(fleet)
    assert finding.subject == JOB
    assert "Each of 32 GPUs (of 32)" in finding.sentence


def test_the_idle_clock_of_a_gpu_that_does_nothing_is_no_throttling() -> None:
    fleet = healthy(5, "unused_gpus")
    fleet.signals[gs.SM_CLOCK][fleet.signals[gs.UTILIZATION] == 0] = 345.0
    assert gpu_health(case_of(fleet)) == []


@pytest.mark.parametrize(
    ("code", "least"), [(79, 0.9), (48, 0.9), (95, 0.9), (13, 0.5), (999, 0.4), (45, 0.1)]
)
def test_a_new_xid_is_told_with_its_meaning(code: int, least: float) -> None:
    fleet = healthy(7, "steady")
    fleet.put(gs.XID, ROW, fleet.after(6), float(code))
    finding = only(fleet)
    assert finding.kind == "gpu_xid"
    assert f"Xid {code}: {xid_meaning(code)[0]}" in finding.sentence
    assert finding.strength >= least
    assert 5 <= onset(finding) <= 7
    assert finding.details.written()["xids"] == [code]


def test_an_xid_that_was_there_before_is_no_news_and_one_that_appears_as_the_first_is() -> None:
    fleet = healthy(7, "steady")
    fleet.put(gs.XID, ROW, fleet.after(-200), 79.0)
    assert gpu_health(case_of(fleet)) == []
    fleet.put(
        gs.XID, ROW, ~fleet.after(8), np.nan
    )  # the exporter has no series before the first error
    assert only(fleet).kind == "gpu_xid"


def test_an_xid_of_a_gpu_that_was_not_seen_before_may_be_old() -> None:
    fleet = healthy(7, "steady")
    for signal in fleet.signals:
        fleet.put(signal, ROW, ~fleet.after(10), np.nan)
    fleet.put(gs.XID, ROW, fleet.after(10), 79.0)
    finding = only(fleet)
    assert finding.strength < 0.4
    assert "perhaps from before" in finding.sentence
    fleet.put(gs.XID, ROW, fleet.after(10), 31.0)
    assert gpu_health(case_of(fleet)) == []


def test_values_that_are_no_codes_are_no_xids() -> None:
    for value in (3.5, 5e6, 9.2e18, -1.0):
        fleet = healthy(7, "steady")
        fleet.put(gs.XID, ROW, fleet.after(6), value)
        assert gpu_health(case_of(fleet)) == []


def test_a_double_bit_error_is_found_also_after_the_counter_began_anew() -> None:
    fleet = healthy(7, "steady")
    fleet.signals[gs.ECC_DBE][:] = 3.0
    fleet.put(gs.ECC_DBE, ROW, fleet.after(5), 0.0)
    assert gpu_health(case_of(fleet)) == []
    fleet.put(gs.ECC_DBE, ROW, fleet.after(9), 1.0)
    finding = only(fleet)
    assert (finding.kind, finding.numbers["increase"]) == ("gpu_ecc_error", 1.0)
    assert "has 1 new uncorrectable memory error." in finding.sentence
    assert 8 <= onset(finding) <= 10


@pytest.mark.parametrize(
    ("signal", "per_minute", "kind"),
    [
        (gs.ECC_SBE, 60, "gpu_single_bit_errors"),
        (gs.PCIE_REPLAYS, 40, "gpu_pcie_replays"),
        (gs.NVLINK_CRC, 20_000, "gpu_nvlink_errors"),
        (gs.NVLINK_ERRORS, 5, "gpu_nvlink_errors"),
    ],
)
def test_a_counter_that_runs_away_is_found(signal: str, per_minute: float, kind: str) -> None:
    fleet = healthy(7, "steady")
    fleet.signals[signal][:] = 0.0
    late = fleet.after(5)
    fleet.put(signal, ROW, late, np.floor((fleet.minutes[late] - 5) * per_minute))
    finding = only(fleet)
    assert (finding.kind, finding.subject) == (kind, "rank 13")


def test_a_row_that_cannot_be_remapped_is_found_and_an_old_failure_counts_little() -> None:
    fleet = healthy(7, "steady")
    fleet.put(gs.ROW_REMAP_FAILURE, ROW, fleet.after(5), 1.0)
    assert only(fleet).strength >= 0.8
    fleet.put(gs.ROW_REMAP_FAILURE, ROW, fleet.after(-200), 1.0)
    assert only(fleet).strength <= 0.3


def test_a_network_port_that_lost_its_link_is_named_with_its_host() -> None:
    fleet = healthy(7, "steady")
    fleet.ports[gs.IB_LINK_DOWNED][2, fleet.after(5)] += 2
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("ib_error", "node-2")
    assert finding.sentence == "node-2 (mlx5_0/1) lost its link 2 times."
    case = case_of(fleet)
    named = pl.col("labels").str.replace("node-2", "NODE-2.example.com", literal=True)
    ports = pl.col("signal").is_in([gs.IB_LINK_DOWNED, gs.IB_SYMBOL_ERRORS])
    case.__dict__["metrics"] = case.metrics.with_columns(
        pl.when(ports).then(named).otherwise(pl.col("labels"))
    )
    assert [f.subject for f in gpu_health(case)] == ["node-2"]


def test_a_gpu_that_reports_no_more_is_missing_and_a_job_that_ends_is_not() -> None:
    fleet = healthy(7, "steady")
    for signal in fleet.signals:
        fleet.put(signal, ROW, fleet.after(12), np.nan)
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("gpu_missing", "rank 13")
    assert "while 7 GPUs of that host still report" in finding.sentence
    assert 11 <= onset(finding) <= 14
    for signal in fleet.signals:
        for row in range(8, 16):
            fleet.put(signal, row, fleet.after(12), np.nan)
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("gpu_missing", "node-1")
    for values in fleet.signals.values():
        values[:, fleet.after(12)] = np.nan
    assert gpu_health(case_of(fleet)) == []


def test_the_idle_gpu_that_all_others_wait_for_is_named() -> None:
    fleet = healthy(7, "steady")
    stuck = fleet.after(6)
    fleet.signals[gs.UTILIZATION][:, stuck] = 100.0
    fleet.put(gs.UTILIZATION, ROW, stuck, 0.0)
    for signal in (gs.TENSOR_ACTIVE, gs.SM_ACTIVE):
        if signal in fleet.signals:
            fleet.signals[signal][:, stuck] = 0.0
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("gpu_idle_alone", "rank 13")
    assert TRAINING_CAUSES[finding.kind].delays_peers
    assert 5 <= onset(finding) <= 7
    assert "31 other GPUs" in finding.sentence


def test_replicas_of_a_service_do_not_wait_for_each_other() -> None:
    fleet = healthy(7, "steady")
    fleet.signals[gs.UTILIZATION][:, fleet.after(6)] = 100.0
    fleet.put(gs.UTILIZATION, ROW, fleet.after(6), 0.0)
    case = case_of(fleet, ranks=False)
    service = Case(case.path, case.alert, case.scope.model_copy(update={"job": None}))
    service.__dict__["metrics"] = case.metrics
    assert gpu_health(service) == []


@pytest.mark.parametrize("without_tensor", [False, True])
def test_gpus_that_are_all_busy_and_compute_nothing_hang_in_a_collective(
    without_tensor: bool,
) -> None:
    fleet = healthy(8, "steady")
    stuck = fleet.after(6)
    fleet.signals[gs.TENSOR_ACTIVE] = np.full_like(fleet.signals[gs.POWER], 0.4)
    fleet.signals[gs.UTILIZATION][:, stuck] = 100.0
    fleet.signals[gs.TENSOR_ACTIVE][:, stuck] = 0.0
    fleet.signals[gs.POWER][:, stuck] = 210.0
    fleet.signals.pop(gs.SM_ACTIVE, None)
    if without_tensor:
        del fleet.signals[gs.TENSOR_ACTIVE]
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("gpu_spinning", JOB)
    assert "All 32 GPUs" in finding.sentence


def test_a_gpu_that_became_hot_without_being_slowed_is_named() -> None:
    fleet = healthy(7, "steady")
    fleet.signals[gs.MEMORY_TEMPERATURE][:] = 60.0
    fleet.put(gs.TEMPERATURE, ROW, fleet.after(8), 88.0)
    finding = only(fleet)
    assert (finding.kind, finding.subject) == ("gpu_hot", "rank 13")
    assert "88 °C" in finding.sentence


def test_a_throttled_gpu_is_the_cause_of_slow_steps_and_no_series_of_a_gpu_shifts_by_itself(
    tmp_path: Path,
) -> None:
    fleet = healthy(7, "steady")
    fleet.signals[gs.EVENT_REASONS] = np.full_like(fleet.signals[gs.SM_CLOCK], 4.0)
    fleet.put(gs.SM_CLOCK, ROW, fleet.after(3), 900.0)
    fleet.put(gs.EVENT_REASONS, ROW, fleet.after(3), 0x44)
    fleet.put(gs.TEMPERATURE, ROW, fleet.after(3), 91.0)
    case = case_of(fleet)
    steps = write_case(tmp_path, metrics=series(JOB, "step_time", 0.4, 0.8, onset=3)).metrics
    case.__dict__["metrics"] = pl.concat([case.metrics, steps])
    assert {f.signal for f in metric_shifts(case)} == {"step_time"}
    found = diagnose(Case(tmp_path, case.alert, case.scope))
    assert found.verdict is not None
    whole = Case(tmp_path, case.alert, case.scope)
    whole.__dict__["metrics"] = case.metrics
    found = diagnose(whole)
    assert found.verdict is Verdict.CAUSE_FOUND
    assert (found.causes[0].subject, found.causes[0].kind) == ("rank 13", "gpu_throttled")
    assert found.causes[0].next_step is not None
    assert "cooling of node-1" in found.causes[0].next_step


def test_one_gpu_that_two_sources_tell_of_is_one_gpu() -> None:
    fleet = healthy(7, "steady")
    fleet.put(gs.ECC_DBE, ROW, fleet.after(5), 4.0)
    case = case_of(fleet)
    other = case.metrics.with_columns(service=pl.lit("run-7/gpu5"), value=pl.col("value") * 3)
    other = other.filter(pl.col("signal") == gs.ECC_DBE)
    case.__dict__["metrics"] = pl.concat([case.metrics, other])
    (finding,) = gpu_health(case)
    assert (finding.kind, finding.subject) == ("gpu_ecc_error", "rank 13")


def test_every_kind_of_finding_is_known_as_a_cause() -> None:
    assert {kind.name for kind in ANALYZER.kinds} <= set(TRAINING_CAUSES)
    assert all(kind.faults == (TRAINING_CAUSES[kind.name],) for kind in ANALYZER.kinds)


def test_labels_of_any_kind_are_read_and_none_stops_the_rest(tmp_path: Path) -> None:
    hostile = [
        "not json",
        "[1]",
        '{"gpu": {}}',
        '{"host": "a\\u202eb\\nc", "gpu": "<@U1>"}',
        "",
        '{"gpu": -1}',
        "{" * 999,
    ]
    rows = [
        {
            "time": at(minute),
            "service": "x",
            "signal": gs.XID,
            "value": 79 if minute > 3 else 0,
            "labels": label,
        }
        for label in hostile
        for minute in range(-10, 10)
    ]
    rows += [
        {"time": at(m), "service": "x", "signal": gs.UTILIZATION, "value": 99, "labels": "{}"}
        for m in range(-9, 9)
    ]
    found = gpu_health(write_case(tmp_path, metrics=rows))
    assert found
    assert all("\n" not in f.sentence and "\u202e" not in f.sentence for f in found)


def test_mig_slices_are_devices_of_their_own() -> None:
    fleet = healthy(7, "steady", hosts=2, per_host=4)
    sliced = {"mig": "3"}
    assert gpu_health(case_of(fleet, ranks=False, labels=sliced)) == []
    fleet.put(gs.XID, 5, fleet.after(3), 94.0)
    (finding,) = gpu_health(case_of(fleet, ranks=False, labels=sliced))
    assert finding.subject == "node-1/gpu1.3"
