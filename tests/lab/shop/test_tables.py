"""The shop's tables hold together: services and their calls, faults and their page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.lab.shop.changes import ChangeDesk, ShopChange
from faultline.lab.shop.faults import FAULTS, draw, fault_order, faults_for
from faultline.lab.shop.layout import (
    CACHE,
    DATABASE,
    SERVICES,
    SHOPPING,
    CallStep,
    ShopService,
    Step,
    services_of,
)
from faultline.lab.shop.levers import ServiceLevers
from faultline.lab.shop.monitoring import SLOW_S
from faultline.lab.shop.running import Shop, ShopOptions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "lab.md"
CHANGES = {None, "deploy", "config", "flag", "migration"}


def steps_of(service: ShopService) -> Iterator[Step]:
    for steps in service.routes.values():
        yield from steps
    if service.consumer is not None:
        yield from service.consumer.steps
    if service.batch is not None:
        yield from service.batch.steps


@pytest.mark.parametrize("small", [False, True], ids=["whole", "small"])
def test_every_call_has_somebody_who_answers(small: bool) -> None:
    routes = {one.name: one.routes for one in services_of(small=small)}
    calls = 0
    for service in services_of(small=small):
        for step in steps_of(service):
            if isinstance(step, CallStep):
                assert step.path in routes[step.callee], (service.name, step)
                calls += 1
    assert calls >= 2


def test_what_customers_ask_for_is_served() -> None:
    front = next(one for one in SERVICES if one.name == "web")
    assert set(SHOPPING.rates) == set(front.routes)


def test_the_shop_is_as_large_as_promised() -> None:
    assert 8 <= len(SERVICES) <= 15
    assert sum(len(one.clusters) > 1 for one in SERVICES) >= 2
    assert {cluster for one in SERVICES for cluster in one.clusters} == {"eu", "us"}


def test_there_are_faults_of_many_kinds_and_one_that_is_none() -> None:
    assert len(FAULTS) >= 21
    assert [one.name for one in FAULTS.values() if one.calm] == ["false_alarm"]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_hits_what_exists_by_a_change_that_exists(fault) -> None:  # type: ignore[no-untyped-def]
    known = {one.name for one in SERVICES} | {DATABASE, CACHE, "us"}
    assert known.issuperset(fault.targets)
    assert fault.changed in CHANGES


def test_the_small_shop_has_faults_that_need_no_store() -> None:
    possible = faults_for(services_of(small=True), small=True)
    names = {one.name for one in services_of(small=True)} | {"us"}
    assert len(possible) >= 8
    for fault in possible:
        assert not names.isdisjoint(fault.targets), fault.name


def shop_of_everything() -> Shop:
    """What drawing needs of a shop; nothing runs."""
    shop = Shop.__new__(Shop)
    shop.services = SERVICES
    shop.options = ShopOptions()
    return shop


def test_every_fault_comes_once_before_any_comes_again() -> None:
    shop = shop_of_everything()
    order = fault_order(shop, 3, 2 * len(FAULTS))
    assert sorted(order[: len(FAULTS)]) == sorted(FAULTS)
    assert sorted(order[len(FAULTS) :]) == sorted(FAULTS)
    assert order == fault_order(shop, 3, len(order))
    assert order != fault_order(shop, 4, len(order))


def test_the_same_seed_draws_the_same_incident() -> None:
    shop = shop_of_everything()
    assert draw(shop, 17) == draw(shop, 17)
    targets = {draw(shop, seed, "slow_code").target for seed in range(40)}
    assert targets == set(FAULTS["slow_code"].targets)


def test_alerts_are_about_services_that_exist() -> None:
    assert {one.name for one in SERVICES}.issuperset(SLOW_S)


def test_the_page_tells_of_every_fault() -> None:
    page = PAGE.read_text()
    for fault in FAULTS.values():
        assert f"| `{fault.name}` | {fault.title} |" in page


def test_a_lever_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no lever 'speed'"):
        ServiceLevers().update({"speed": 1})


def test_a_decoy_is_never_about_the_culprit() -> None:
    shop = shop_of_everything()
    shop.deploy = lambda *_: None  # type: ignore[method-assign]
    told: list[ShopChange] = []
    desk = ChangeDesk(shop, random.Random(1), told.append)
    for _ in range(200):
        desk.harmless(avoid="search")
    assert "search" not in {change.service for change in told}
    assert {change.kind for change in told} == {"deploy", "config", "flag", "migration"}
    assert len({change.id for change in told}) == len(told)
