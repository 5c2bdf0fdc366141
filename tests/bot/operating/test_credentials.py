"""What each connector's credential can do is looked at once, a while after the start, and told
where people look."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.operating.credentials import (
    LONGEST_STOP_S,
    Credentials,
    checks_beside,
    problem_of,
)
from faultline.bot.settings import Settings
from faultline.bot.web.record_pages import credential_lines
from faultline.connectors.asking import all_of
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits


class Source:
    """A connector that is only checked."""

    kinds = ("logs",)
    limits = Limits()

    def __init__(self, name: str, line: str | None, *, ok: bool = True) -> None:
        self.name, self._line, self._ok = name, line, ok

    async def collect(self, request: Request) -> Collected:
        raise NotImplementedError

    async def check(self) -> Check:
        if self._line is None:
            raise RuntimeError("broken")
        return Check(self.name, self._ok, self._line)


READS = Source("loki", "Loki 3.1: lines can be read")
WRITES = Source(
    "github",
    "5 repositories can be read; warning: the token can also write: give it one that only reads",
)
REFUSED = Source("sentry", "projects: the token is refused\nforged line", ok=False)
BROKEN = Source("tempo", None)


def looked(*sources: Source) -> Credentials:
    credentials = Credentials(asking(*sources))
    credentials.look()
    return credentials


def asking(*sources: Source) -> Callable[[threading.Event], Sequence[Check]]:
    return lambda _stopping: asyncio.run(all_of(sources))


def test_a_credential_that_can_write_and_one_that_cannot_read_are_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "faultline.credentials"):
        looked(READS, WRITES, REFUSED, BROKEN)
    assert [record.getMessage() for record in caplog.records] == [
        "github: the token can also write: give it one that only reads",
        "sentry: projects: the token is refused forged line",
        "tempo: unexpected RuntimeError",
    ]


def test_the_health_page_tells_them_and_nothing_before_they_are_known() -> None:
    assert credential_lines(None) == credential_lines(Credentials(asking(READS))) == []
    assert [
        (line.name, line.tone) for line in credential_lines(looked(READS, WRITES, REFUSED))
    ] == [
        ("Credential of github", "open"),
        ("Credential of sentry", "fault"),
    ]
    assert [line.tone for line in credential_lines(looked(READS))] == ["well"]


def test_they_are_looked_at_by_themselves_unless_the_bot_stops_before() -> None:
    soon, never = (Credentials(asking(READS), after_s=0) for _ in range(2))
    never.stop()
    never.start()
    soon.start()
    for _ in range(3000):
        if soon.checks is not None:
            break
        asyncio.run(asyncio.sleep(0.01))
    assert soon.checks is not None
    assert never.checks is None


def test_what_needs_nobody_is_no_problem() -> None:
    assert problem_of(Check("loki", True, "can be read")) is None


def test_the_process_that_asks_is_given_the_settings_and_its_libraries_stay_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "case").mkdir()
    recorded = {"recorded": {"case": str(tmp_path / "case")}}
    jaeger = {"jaeger": {"url": "http://127.0.0.1:9", "token": "t-5f2c19"}}
    checks = {
        check.name: check
        for check in checks_beside(Settings.model_validate(recorded | jaeger), threading.Event())
    }
    assert set(checks) == {"recorded", "jaeger"}
    assert not checks["jaeger"].ok


def test_a_bot_that_stops_while_they_are_looked_at_ends_soon_and_leaves_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.bot.operating.credentials.ask_connectors", time.sleep)
    credentials = Credentials(partial(checks_beside, 60), after_s=0)  # type: ignore[arg-type]
    before = set(multiprocessing.active_children())
    credentials.start()
    while not set(multiprocessing.active_children()) - before:
        time.sleep(0.01)
    began = time.monotonic()
    credentials.stop()
    assert time.monotonic() - began < LONGEST_STOP_S
    assert set(multiprocessing.active_children()) <= before
    assert (credentials.checks, caplog.text) == (None, "")


def test_a_process_that_is_killed_is_said_and_nothing_is_told_of_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def killed(_stopping: threading.Event) -> Sequence[Check]:
        raise BudgetExceeded("memory", "an analysis process")

    credentials = Credentials(killed, after_s=0)
    credentials.start()
    for _ in range(3000):
        if caplog.records:
            break
        asyncio.run(asyncio.sleep(0.01))
    assert "credentials were not checked: memory" in caplog.text
    assert credentials.checks is None
