"""Which GPUs are gone, stand still or compute nothing, on both sides of each limit."""

from __future__ import annotations

import pytest

from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from tests.analysis.gpu_fleets import SimulatedFleet, calm, case_of


def kinds(fleet: SimulatedFleet) -> list[str]:
    """The kinds of what is found."""
    return [finding.kind for finding in gpu_health(case_of(fleet))]


def silent(fleet: SimulatedFleet, *, first: float = -60, last: float) -> list[str]:
    """What is found where one GPU reports only between these minutes."""
    for signal in fleet.signals:
        fleet.put(signal, 0, ~fleet.after(first) | fleet.after(last), float("nan"))
    return kinds(fleet)


@pytest.mark.parametrize(
    ("step_s", "missing_min", "gone"),
    [(60, 3, False), (60, 5, True), (15, 2.5, False), (15, 4, True)],
)
def test_a_gpu_is_gone_after_minutes_and_several_samples(
    step_s: float, missing_min: float, *, gone: bool
) -> None:
    found = silent(calm(1, 4, step_s), last=30 - missing_min)
    assert found == (["gpu_missing"] if gone else [])


@pytest.mark.parametrize(("samples", "gone"), [(4, False), (6, True)])
def test_a_gpu_that_was_hardly_seen_is_not_missed(samples: int, *, gone: bool) -> None:
    assert silent(calm(), first=2, last=2 + samples) == (["gpu_missing"] if gone else [])


def idle(
    fleet: SimulatedFleet,
    *,
    gpus: int = 1,
    used: float = 0,
    others: float = 100,
    lasting: float = 20,
    before: float = 0,
) -> list[str]:
    """What is found where this many GPUs have nothing to do for this long, in the hour before as
    well."""
    stretches = fleet.after(0) & ~fleet.after(lasting)
    stretches |= fleet.after(-50) & ~fleet.after(before - 50)
    for row in range(len(fleet.gpus)):
        fleet.put(gs.UTILIZATION, row, stretches, used if row < gpus else others)
    return sorted(set(kinds(fleet)))


ALONE = ["gpu_idle_alone"]


@pytest.mark.parametrize(
    ("used", "others", "found"),
    [(4, 100, ALONE), (6, 100, []), (0, 96, ALONE), (0, 90, [])],
    ids=["idle", "not quite idle", "the others wait", "the others work"],
)
def test_the_others_wait_for_a_gpu_that_has_nothing_to_do(
    used: float, others: float, found: list[str]
) -> None:
    assert idle(calm(), used=used, others=others) == found


@pytest.mark.parametrize(("gpus", "found"), [(2, ALONE), (3, [])])
def test_few_gpus_keep_many_waiting(gpus: int, found: list[str]) -> None:
    assert idle(calm(1, 10), gpus=gpus) == found


@pytest.mark.parametrize(("working", "found"), [(1, ALONE), (2, [])])
def test_most_gpus_wait_for_the_one_that_is_idle(working: int, found: list[str]) -> None:
    fleet = calm()
    fleet.put(gs.UTILIZATION, 0, fleet.after(0), 0.0)
    for row in range(1, 1 + working):
        fleet.put(gs.UTILIZATION, row, fleet.after(0), 70.0)
    assert kinds(fleet) == found


@pytest.mark.parametrize(
    ("lasting", "before", "found"),
    [(4, 0, []), (6, 0, ALONE), (8, 5, []), (12, 5, ALONE)],
    ids=["for long", "for longer", "hardly longer than usual", "much longer than usual"],
)
def test_a_wait_is_longer_than_a_checkpoint_and_than_usual(
    lasting: float, before: float, found: list[str]
) -> None:
    assert idle(calm(), lasting=lasting, before=before) == found


def spinning(signals: dict[str, tuple[float, float]]) -> bool:
    """Whether a job is found to compute nothing, by what its GPUs report before and after."""
    fleet = calm()
    del fleet.signals[gs.TENSOR_ACTIVE]
    for signal, (before, after) in signals.items():
        fleet.signals[signal] = 0 * fleet.signals[gs.XID] + before
        fleet.signals[signal][:, fleet.after(5)] = after
    return kinds(fleet) == ["gpu_spinning"]


@pytest.mark.parametrize(
    ("usual", "share", "found"),
    [(0.4, 0.08, True), (0.4, 0.12, False), (0.025, 0, True), (0.015, 0, False)],
    ids=["nothing", "something", "rarely used", "hardly ever used"],
)
def test_a_job_that_uses_its_tensor_cores_no_more_waits(
    usual: float, share: float, *, found: bool
) -> None:
    assert spinning({gs.TENSOR_ACTIVE: (usual, share * usual)}) is found


@pytest.mark.parametrize(
    ("power", "active", "found"),
    [(0.5, 0.4, True), (0.7, 0.4, False), (0.5, 0.6, False)],
    ids=["less of both", "nearly its power", "mostly active"],
)
def test_without_tensor_cores_a_job_that_waits_draws_less_and_is_less_active(
    power: float, active: float, *, found: bool
) -> None:
    assert spinning({gs.POWER: (600, 600 * power), gs.SM_ACTIVE: (0.9, 0.9 * active)}) is found
