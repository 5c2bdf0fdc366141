"""Which GPUs share one finding, how sure that makes it, and what an Xid weighs."""

from __future__ import annotations

import pytest

from faultline.analysis.gpus.fleet import read_fleet
from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Finding
from tests.analysis.gpu_fleets import JOB, SimulatedFleet, calm, case_of


def failed(fleet: SimulatedFleet, rows: range, code: int = 13) -> list[Finding]:
    """What is found where each of these GPUs reports an Xid."""
    for row in rows:
        fleet.put(gs.XID, row, fleet.after(5), float(code))
    return gpu_health(case_of(fleet))


@pytest.mark.parametrize(
    ("per_host", "rows", "of_the_job"),
    [
        (6, range(4, 9), False),
        (6, range(2, 10), True),
        (2, range(1, 4), False),
        (3, range(1, 6), True),
    ],
    ids=["a part of the job", "most of the job", "most of a small job", "five of six"],
)
def test_what_most_gpus_show_is_the_job_s(per_host: int, rows: range, *, of_the_job: bool) -> None:
    found = failed(calm(2, per_host), rows)
    assert ([finding.subject for finding in found] == [JOB]) is of_the_job


def test_each_doubling_of_the_gpus_takes_a_tenth_of_the_doubt() -> None:
    (one,) = failed(calm(2, 8), range(1))
    (eight,) = failed(calm(2, 8), range(8))
    assert (1 - eight.strength) / (1 - one.strength) == pytest.approx(0.73, abs=0.05)


def test_an_xid_that_follows_another_error_says_less_than_an_old_grave_one() -> None:
    (follows,) = failed(calm(), range(1), code=45)
    fleet = calm()
    for signal in fleet.signals:
        fleet.put(signal, 0, ~fleet.after(5), float("nan"))
    (old,) = failed(fleet, range(1), code=79)
    assert "perhaps from before" in old.sentence
    assert old.strength / 2 < follows.strength < old.strength


def test_samples_that_come_often_are_compared_minute_by_minute() -> None:
    fleet = read_fleet(case_of(calm(1, 2, step_s=15)))
    assert fleet is not None
    assert fleet.grid.step_ns == 60 * 10**9
