"""The page that breaks the shop: what it shows, what a press does, and who may press."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from faultline.lab.live.break_button import BreakButton, NamedLink
from faultline.lab.shop.changes import ChangeDesk
from faultline.lab.shop.faults import FAULTS, faults_for
from tests.lab.shop.started_shop import StartedShop, started_shop


@pytest.fixture
def started(tmp_path: Path) -> Iterator[StartedShop]:
    with started_shop(tmp_path, "http://127.0.0.1:9", small=True) as shop:
        yield shop


@pytest.fixture
def button(started: StartedShop) -> BreakButton:
    desk = ChangeDesk(started.shop, random.Random(1), lambda _: None)
    links = (NamedLink("Grafana <1>", "http://127.0.0.1:3000/?a=1&b=2"),)
    return BreakButton(started.shop, desk, random.Random(2), changing=threading.Lock(), links=links)


@pytest.fixture
def page(button: BreakButton) -> Iterator[TestClient]:
    with TestClient(button.app, base_url="http://127.0.0.1") as client:
        yield client


def test_a_healthy_shop_offers_its_faults_and_a_surprise(
    page: TestClient, started: StartedShop
) -> None:
    text = page.get("/").text
    assert "The shop is healthy." in text
    assert 'action="/break/surprise"><button class="main">Break something</button>' in text
    for fault in faults_for(started.shop.services, small=True):
        assert f'action="/break/{fault.name}"' in text
        assert f"<span>{fault.title.replace(chr(39), '&#x27;')}<code>{fault.name}</code>" in text
    assert "slow_query" not in text
    assert '<a href="http://127.0.0.1:3000/?a=1&amp;b=2">Grafana &lt;1&gt;</a>' in text
    assert page.get("/healthz").text == "ok"


def test_a_chosen_fault_is_named_until_it_is_repaired(
    page: TestClient, button: BreakButton, started: StartedShop
) -> None:
    healthy = started.state()
    answer = page.post("/break/bad_version", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert button.target() in FAULTS["bad_version"].targets
    text = page.get("/").text
    said = f"{FAULTS['bad_version'].title} (bad_version, at {button.target()})."
    assert f"The shop is broken: {said}" in text
    assert "/reveal" not in text
    broken = started.state()
    assert broken != healthy
    # A second press breaks nothing more.
    page.post("/break/packet_loss")
    assert started.state() == broken
    page.post("/repair")
    assert button.target() == ""
    assert started.state() == healthy
    assert page.post("/repair").status_code == 200


def test_a_surprise_is_kept_secret_until_somebody_asks(
    page: TestClient, button: BreakButton
) -> None:
    page.post("/break/surprise")
    text = page.get("/").text
    assert "The shop is broken. An alert fires within a minute or two." in text
    assert 'action="/repair"><button class="main">Repair it</button>' in text
    assert button.target()
    page.post("/reveal")
    assert f"at {button.target()})." in page.get("/").text


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)],
)
def test_only_this_page_presses_the_button(
    site: str, status: int, page: TestClient, button: BreakButton
) -> None:
    answer = page.post("/break/surprise", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == status
    assert bool(button.target()) == (status == 200)


def test_a_fault_that_this_shop_cannot_have_is_not_found(page: TestClient) -> None:
    for fault in ("gremlins", "slow_query"):
        assert page.post(f"/break/{fault}").status_code == 404
