"""Whoever watches learns of each request to a vendor: how it ended, how long it took, or why it was
not made."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport import watching
from faultline.connectors.shared.transport.circuit_breaker import FAILURES_TO_OPEN, Deadline
from faultline.connectors.shared.transport.rate_limiter import (
    RateLimiter,
    open_circuits,
    rate_limiter_of,
)
from faultline.connectors.shared.transport.transport import Retries

PATIENT_S = 60.0


@pytest.fixture
def told() -> Iterator[list[watching.VendorRequest]]:
    """What was reported during the test."""
    found: list[watching.VendorRequest] = []
    watching.watch(found.append)
    yield found
    watching._watches.remove(found.append)


class _Vendor(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = int(self.path.rpartition("/")[2])
        body = b'{"a": 1}'
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """A vendor that answers with the status in the path."""
    vendor = ThreadingHTTPServer(("127.0.0.1", 0), _Vendor)
    threading.Thread(target=vendor.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{vendor.server_port}"
    vendor.shutdown()
    vendor.server_close()


async def _ask(url: str, status: int) -> None:
    http = ReadOnlyHttp(
        "vendor", url, limits=Limits(deadline_s=PATIENT_S), retries=Retries(attempts=1)
    )
    async with http.open() as session:
        try:
            await session.get(f"/{status}", type=dict)
        except ConnectorError:
            return


@pytest.mark.parametrize(
    ("status", "said"), [(200, "2xx"), (302, "3xx"), (404, "4xx"), (429, "429"), (503, "5xx")]
)
def test_each_request_is_told_with_what_the_server_answered(
    server: str, told: list[watching.VendorRequest], status: int, said: str
) -> None:
    asyncio.run(_ask(server, status))
    (asked,) = told
    assert (asked.vendor, asked.status, asked.status_class, asked.skip_reason) == (
        "vendor",
        status,
        said,
        None,
    )
    assert asked.took_s > 0


def test_a_server_that_is_not_there_is_told_as_none(told: list[watching.VendorRequest]) -> None:
    asyncio.run(_ask("http://127.0.0.1:9", 200))
    assert [asked.status_class for asked in told] == ["none"]


def test_an_error_within_a_turn_brings_its_status(told: list[watching.VendorRequest]) -> None:
    class Later(Exception):
        error = ConnectorError("v", "call", "busy", status=503)

    with (
        pytest.raises(Later),
        RateLimiter(Limits(), "v").permit_in_thread(Deadline.after(PATIENT_S)),
    ):
        raise Later
    with (
        pytest.raises(BudgetExceeded),
        RateLimiter(Limits(), "v").permit_in_thread(Deadline.after(PATIENT_S)),
    ):
        raise BudgetExceeded("size", "1 byte")
    assert [asked.status_class for asked in told] == ["5xx", "2xx"]


def test_a_request_that_is_not_made_is_told_with_the_reason(
    told: list[watching.VendorRequest],
) -> None:
    limiter = rate_limiter_of("sick", "server-of-this-test", Limits(requests_per_s=0.001))
    for _ in range(FAILURES_TO_OPEN):
        limiter.breaker.record(failed=True)
    with pytest.raises(ConnectorError), limiter.permit_in_thread(Deadline.after(PATIENT_S)):
        raise AssertionError("not reached")
    assert open_circuits()["sick"] == 1
    limiter.breaker.record(failed=False)
    assert open_circuits()["sick"] == 0
    with limiter.permit_in_thread(Deadline.after(PATIENT_S)):
        pass
    with pytest.raises(BudgetExceeded), limiter.permit_in_thread(Deadline.after(PATIENT_S)):
        raise AssertionError("not reached")
    assert [asked.skip_reason for asked in told] == ["circuit", None, "deadline"]


def test_the_wait_for_a_turn_is_told_apart_from_the_request(
    told: list[watching.VendorRequest],
) -> None:
    limiter = RateLimiter(Limits(requests_per_s=1.0, concurrency=1), "v")
    for _ in range(2):
        with limiter.permit_in_thread(Deadline.after(PATIENT_S)):
            pass
    assert told[0].waited_s < told[1].waited_s


def test_what_is_told_from_a_thread_has_the_asker_s_context(
    told: list[watching.VendorRequest],
) -> None:
    of = contextvars.ContextVar("of", default="nobody")
    seen: list[str] = []
    watching.watch(lambda _: seen.append(of.get()))
    limiter = RateLimiter(Limits(), "v")

    def call() -> None:
        with limiter.permit_in_thread(Deadline.after(PATIENT_S)):
            pass

    of.set("the asker")
    with ThreadPoolExecutor(1) as threads:
        threads.submit(contextvars.copy_context().run, call).result()
    watching._watches.pop()
    assert seen == ["the asker"]
