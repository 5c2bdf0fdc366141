"""`POST /changes` over real HTTP, with a real store behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine
from starlette.applications import Starlette

from faultline.bot.intake.accepting import IntakeLimits
from faultline.bot.intake.reported_changes import MOST_AT_ONCE, reported_change_routes, store_keep
from faultline.bot.settings import Settings
from faultline.bot.store.changes import ReportedChange, ReportedChanges
from faultline.bot.store.store import Store
from faultline.loopback.server import serve_in_thread

TOKEN = "reporter"
AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
DEPLOY = {
    "service": "basket",
    "title": "Deploy v2.4.1",
    "id": "build-77",
    "time": AT.isoformat(),
    "author": "dana",
    "link": "https://ci.example.com/77",
    "files": ["src/pay.py", "src/cart.py"],
    "diff": "-timeout = 5\n+timeout = 0.3",
    "place": {"environment": "prod"},
    "before": "v2.4.0",
    "after": "v2.4.1",
}


class Door:
    """The address, and what lies behind it."""

    def __init__(self, url: str, changes: ReportedChanges) -> None:
        self.url = f"{url}/changes"
        self._changes = changes

    def report(self, given: Any, token: str = TOKEN) -> httpx.Response:
        body = given if isinstance(given, bytes) else json.dumps(given).encode()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.post(self.url, content=body, headers=headers, timeout=10)

    def kept(self) -> list[ReportedChange]:
        now = datetime.now(UTC)
        return list(self._changes.between(now - timedelta(days=400), now + timedelta(days=1)))


@pytest.fixture
def door(sqlite_store: Store) -> Iterator[Door]:
    settings = Settings.model_validate(
        {"changes": {"tokens": [TOKEN]}, "services": {"checkout": {"aliases": ["basket"]}}}
    )
    changes = ReportedChanges(sqlite_store.engine)
    limits = IntakeLimits(max_body_bytes=20_000)
    routes = reported_change_routes(settings, store_keep(changes), limits)
    url, stop = serve_in_thread(Starlette(routes=routes))
    yield Door(url, changes)
    stop()


def test_a_change_is_kept_under_our_name_of_the_service(door: Door) -> None:
    answer = door.report(DEPLOY)
    assert (answer.status_code, answer.json()) == (202, {"outcome": "kept", "ids": ["build-77"]})
    [kept] = door.kept()
    assert (kept.service, kept.kind, kept.title, kept.at) == (
        "checkout",
        "deploy",
        "Deploy v2.4.1",
        AT,
    )
    assert kept.files == "src/pay.py\nsrc/cart.py"
    assert kept.diff == "-timeout = 5\n+timeout = 0.3"
    assert kept.place == {"environment": "prod"}
    assert (kept.before, kept.after) == ("v2.4.0", "v2.4.1")


def test_service_and_title_are_enough(door: Door) -> None:
    before = datetime.now(UTC)
    assert door.report({"service": "ledger", "title": "restart"}).status_code == 202
    [kept] = door.kept()
    assert (kept.service, kept.kind) == ("ledger", "deploy")
    assert before <= kept.at <= datetime.now(UTC)


def test_the_same_change_again_replaces_what_was_told_before(door: Door) -> None:
    door.report(DEPLOY)
    door.report(DEPLOY | {"title": "Deploy v2.4.1, finished"})
    assert [one.title for one in door.kept()] == ["Deploy v2.4.1, finished"]
    without_id = {name: value for name, value in DEPLOY.items() if name != "id"}
    door.report(without_id)
    door.report(without_id)
    assert len(door.kept()) == 2


def test_several_are_kept_together_or_not_at_all(door: Door) -> None:
    refused = door.report([DEPLOY, {"service": "ledger"}])
    assert (refused.status_code, refused.text) == (400, "change 2: title: Field required\n")
    assert door.kept() == []
    assert door.report([DEPLOY, {"service": "ledger", "title": "flag on"}]).status_code == 202
    assert len(door.kept()) == 2


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (b"{", "the body is not JSON"),
        (b"[" * 10_000, "the body is not JSON"),
        ([], f"1 to {MOST_AT_ONCE} changes at once"),
        (
            [{"service": "a", "title": "b"}] * (MOST_AT_ONCE + 1),
            f"1 to {MOST_AT_ONCE} changes at once",
        ),
        (7, "the body: Input should be"),
        ({"title": "x"}, "service: Field required"),
        (DEPLOY | {"service": " "}, "service: String should have at least 1 character"),
        (DEPLOY | {"kind": "party"}, "kind: Input should be 'deploy', 'config'"),
        (DEPLOY | {"time": "yesterday"}, "time: Input should be a valid datetime"),
        (DEPLOY | {"time": "2026-01-01T00:00:00"}, "time: Input should have timezone info"),
        (
            DEPLOY | {"time": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
            "time: is in the future",
        ),
        (DEPLOY | {"comit": "1"}, "comit: Extra inputs are not permitted"),
        (DEPLOY | {"author": "x\ud800"}, "author: Input should be a valid string"),
        (DEPLOY | {"files": "a.py"}, "files: Input should be a valid tuple"),
    ],
)
def test_what_is_wrong_is_said_with_the_field_s_name(door: Door, given: Any, line: str) -> None:
    answer = door.report(given)
    assert answer.status_code == 400
    assert answer.text.startswith(line), answer.text
    assert door.kept() == []


def test_text_is_hostile(door: Door) -> None:
    hostile = {"title": "a\u202eb\nc\x00", "link": "javascript:alert(1)", "author": "x\u2066"}
    assert door.report({"service": "ledger", **hostile}).status_code == 202
    [kept] = door.kept()
    assert (kept.title, kept.link, kept.author) == ("ab c", "", "x")


def test_a_body_that_is_too_large_is_refused(door: Door) -> None:
    assert door.report(DEPLOY | {"diff": "x" * 30_000}).status_code == 413


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_reporter_without_the_token_is_refused_unread(door: Door, token: str) -> None:
    answer = door.report(b"{", token)
    assert (answer.status_code, answer.text) == (401, "signature\n")


def test_without_a_token_set_nothing_is_taken(sqlite_store: Store) -> None:
    keep = store_keep(ReportedChanges(sqlite_store.engine))
    app = Starlette(routes=reported_change_routes(Settings(), keep, IntakeLimits()))
    url, stop = serve_in_thread(app)
    try:
        answer = httpx.post(f"{url}/changes", json=DEPLOY, timeout=10)
    finally:
        stop()
    assert (answer.status_code, answer.text) == (
        404,
        "not configured: set FAULTLINE_CHANGES__TOKENS\n",
    )


def test_a_store_that_hangs_asks_for_the_same_request_again() -> None:
    class Hanging(ReportedChanges):
        def report(self, changes: Iterable[ReportedChange], *, now: datetime | None = None) -> None:
            time.sleep(0.5)

    settings = Settings.model_validate({"changes": {"tokens": [TOKEN]}})
    keep = store_keep(Hanging(create_engine("sqlite://")), within_s=0.05)
    url, stop = serve_in_thread(
        Starlette(routes=reported_change_routes(settings, keep, IntakeLimits()))
    )
    try:
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{url}/changes", json=DEPLOY, headers=headers, timeout=10)
    finally:
        stop()
    assert (answer.status_code, answer.text) == (503, "try again\n")


def test_wrong_tokens_are_limited_and_a_right_one_is_taken(door: Door) -> None:
    statuses = [door.report(DEPLOY, token=f"guess {n}").status_code for n in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert door.report(DEPLOY).status_code == 202
