"""What each connector's credential can do is looked at once, a while after the start, and told where people look."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bot.credentials import Credentials, problem_of
from bot.web.record_pages import credential_lines
from connectors.base import Check, Collected, Request
from connectors.limits import Limits


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
WRITES = Source("github", "5 repositories can be read; warning: the token can also write: give it one that only reads")
REFUSED = Source("sentry", "projects: the token is refused\nforged line", ok=False)
BROKEN = Source("tempo", None)


def looked(*sources: Source) -> Credentials:
    credentials = Credentials(sources)
    asyncio.run(credentials.look())
    return credentials


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
    assert credential_lines(None) == credential_lines(Credentials([READS])) == []
    assert [(line.name, line.tone) for line in credential_lines(looked(READS, WRITES, REFUSED))] == [
        ("Credential of github", "open"),
        ("Credential of sentry", "fault"),
    ]
    assert [line.tone for line in credential_lines(looked(READS))] == ["well"]


def test_they_are_looked_at_by_themselves_unless_the_bot_stops_before() -> None:
    soon, never = Credentials([READS]), Credentials([READS])
    never.stop()
    never.look_later(0)
    soon.look_later(0)
    for _ in range(3000):
        if soon.checks is not None:
            break
        asyncio.run(asyncio.sleep(0.01))
    assert soon.checks is not None
    assert never.checks is None


def test_what_needs_nobody_is_no_problem() -> None:
    assert problem_of(Check("loki", True, "can be read")) is None
