"""The HTTP that connectors speak, against a real local server that misbehaves in every way we
know."""

from __future__ import annotations

import asyncio
import gzip
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline import connectors
from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.rate_limiter import RateLimiter
from faultline.connectors.shared.transport.transport import (
    Retries,
    Timeouts,
    VendorTransport,
    get_only,
    retry_after,
)
from faultline.connectors.shared.vendor_text import short
from tests.connectors.local_http import LocalServer, Reply

FAST = Retries(attempts=3, pause_s=0.02)


def get(
    server: LocalServer, *, path: str = "/x", timeouts: Timeouts | None = None, **limits: Any
) -> Any:
    """The decoded answer to one GET."""
    chosen = Limits(**{"deadline_s": 5.0, "requests_per_s": 1000.0, **limits})
    http = ReadOnlyHttp(
        "vendor", server.url, limits=chosen, retries=FAST, timeouts=timeouts or Timeouts()
    )

    async def ask() -> Any:
        async with http.open() as session:
            return await session.get(path, [("q", "a b&c=d")], type=dict[str, int])

    return asyncio.run(ask())


def test_an_answer_is_decoded_and_parameters_arrive_as_given(server: LocalServer) -> None:
    server.on("/x", Reply({"a": 1}))
    assert get(server) == {"a": 1}
    assert server.asked[0].query == {"q": ["a b&c=d"]}


@pytest.mark.parametrize(
    ("status", "words", "retryable"),
    [
        (400, "not accepted: bad query", False),
        (401, "authentication failed", False),
        (403, "not permitted", False),
        (404, "not found", False),
        (429, "rate limit", True),
        (500, "refused", False),
        (503, "not available now", True),
    ],
)
def test_an_error_says_what_it_is_and_whether_to_try_again(
    server: LocalServer, status: int, words: str, retryable: bool
) -> None:
    server.on("/x", Reply({"error": "bad query"}, status=status))
    with pytest.raises(ConnectorError, match=words) as caught:
        get(server)
    assert (caught.value.vendor, caught.value.call, caught.value.status) == ("vendor", "/x", status)
    assert caught.value.retryable is retryable
    assert len(server.asked) == (3 if retryable else 1)


@pytest.mark.parametrize("status", [429, 503])
def test_a_later_answer_is_waited_for(server: LocalServer, status: int) -> None:
    server.on("/x", Reply(status=status, headers={"Retry-After": "1"}), Reply({"a": 1}))
    started = time.monotonic()
    assert get(server) == {"a": 1}
    assert time.monotonic() - started >= 1


def test_a_wait_longer_than_the_deadline_fails_at_once(server: LocalServer) -> None:
    server.on("/x", Reply(status=429, headers={"Retry-After": "600"}))
    started = time.monotonic()
    with pytest.raises(ConnectorError, match="rate limit"):
        get(server)
    assert time.monotonic() - started < 300
    assert len(server.asked) == 1


def test_retry_after_may_be_seconds_or_a_date() -> None:
    assert retry_after({"retry-after": "7"}, 1) == 7
    later = datetime.now(UTC) + timedelta(seconds=60)
    assert 55 < retry_after({"retry-after": format_datetime(later, usegmt=True)}, 1) <= 60
    assert retry_after({"retry-after": "soon"}, 1) == 1
    assert retry_after({"retry-after": "٣"}, 1) == 1
    assert retry_after({}, 1) == 1


def test_an_answer_larger_than_allowed_is_not_read_to_its_end(server: LocalServer) -> None:
    server.on("/x", Reply(b'{"a": "' + b"x" * 3_000_000 + b'"}'))
    with pytest.raises(BudgetExceeded, match="100,000 bytes"):
        get(server, max_bytes=100_000)


def test_a_gzip_bomb_is_not_unpacked(server: LocalServer) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    server.on("/x", Reply(bomb, headers={"Content-Encoding": "gzip"}))
    assert len(bomb) < 100_000
    with pytest.raises(BudgetExceeded, match="100,000 bytes"):
        get(server, max_bytes=100_000)


def test_a_packed_answer_is_unpacked_and_a_broken_one_refused(server: LocalServer) -> None:
    packed = {"Content-Encoding": "gzip"}
    server.on("/x", Reply(gzip.compress(b'{"a": 1}'), headers=packed))
    assert get(server) == {"a": 1}
    server.on("/cut", Reply(gzip.compress(b'{"a": 1}')[:-9], headers=packed))
    with pytest.raises(ConnectorError, match="cut off"):
        get(server, path="/cut")
    server.on("/bad", Reply(b"not gzip", headers=packed))
    with pytest.raises(ConnectorError, match="compression is broken"):
        get(server, path="/bad")
    server.on("/other", Reply(b"x", headers={"Content-Encoding": "br"}))
    with pytest.raises(ConnectorError, match="encoding that was not requested"):
        get(server, path="/other")


@pytest.mark.parametrize(
    "body",
    [b'{"a": ', b'{"a": "text"}', b"[1]", b"", b"\xff\xfe", b"[" * 100_000],
    ids=lambda b: repr(b[:12]),
)
def test_an_answer_of_another_shape_is_refused_in_one_line(
    server: LocalServer, body: bytes
) -> None:
    server.on("/x", Reply(body))
    with pytest.raises(ConnectorError, match="unexpected response") as caught:
        get(server)
    assert "\n" not in str(caught.value)


def test_an_answer_cut_short_is_tried_again(server: LocalServer) -> None:
    server.on("/x", Reply(b'{"a"', claims=100), Reply({"a": 2}))
    assert get(server) == {"a": 2}


def test_a_slow_answer_ends_by_the_read_timeout_and_a_dripping_one_by_the_deadline(
    server: LocalServer,
) -> None:
    server.on("/x", Reply({"a": 1}, delay_s=5))
    with pytest.raises(ConnectorError, match="no answer in time") as caught:
        get(server, timeouts=Timeouts(read_s=0.1))
    assert caught.value.retryable
    server.on("/drip", Reply(b" " * 1000, drip_s=0.05))
    started = time.monotonic()
    with pytest.raises(BudgetExceeded, match="time limit"):
        get(server, path="/drip", deadline_s=0.5)
    assert time.monotonic() - started < 30


def test_nobody_listening_is_an_error_to_try_again() -> None:
    with LocalServer() as gone:
        pass
    with pytest.raises(ConnectorError, match="no answer") as caught:
        get(gone)
    assert caught.value.retryable


def test_a_redirect_is_not_followed(server: LocalServer) -> None:
    server.on("/x", Reply(status=302, headers={"Location": f"{server.url}/y"}))
    with pytest.raises(ConnectorError, match="redirect"):
        get(server)
    assert server.paths() == ["/x"]


def test_errors_do_not_repeat_what_the_vendor_or_we_must_not_show(server: LocalServer) -> None:
    server.on("/x", Reply({"error": "your token is secret-123"}, status=401))
    with pytest.raises(ConnectorError) as caught:
        get(server)
    assert "secret-123" not in str(caught.value)


def test_a_client_refuses_to_send_anything_but_get(server: LocalServer) -> None:
    async def post() -> None:
        http = ReadOnlyHttp("vendor", server.url, limits=Limits())
        async with http.open() as session:
            await session._client.post(f"{server.url}/x", content=b"{}")

    with pytest.raises(ConnectorError, match="GET only"):
        asyncio.run(post())
    assert server.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"])
def test_only_get_is_allowed(method: str) -> None:
    request = httpx.Request(method, "http://127.0.0.1/")
    if request.method == "GET":
        return
    with pytest.raises(ConnectorError, match="GET only"):
        get_only(request)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass@host",
        "ftp://host",
        "host:9090",
        "http://",
        "http://host/?q=1",
        "http://host/#x",
    ],
)
def test_an_address_that_carries_more_than_an_address_stops_the_start(url: str) -> None:
    with pytest.raises(SettingsError, match=r"vendor\.url") as caught:
        ReadOnlyHttp("vendor", url, limits=Limits())
    assert "pass@" not in str(caught.value)


def test_vendor_text_is_made_fit_for_one_line() -> None:
    assert short("a\nb\x1b[31m\u202ec\u200b") == "a b [31m c"
    assert len(short("x" * 1000)) == 160


def test_proxies_of_the_environment_are_used(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("/x", Reply({"a": 1}))
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "")
    http = ReadOnlyHttp("vendor", "http://vendor.invalid", limits=Limits(), retries=FAST)

    async def ask() -> Any:
        async with http.open() as session:
            return await session.get("/x", type=dict[str, int])

    assert asyncio.run(ask()) == {"a": 1}
    assert server.asked[0].headers["Host"] == "vendor.invalid"


def test_the_transport_wraps_any_other() -> None:
    """Retries, rate and read-only are the transport's, whatever sends in the end."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.method)
        body = httpx.ByteStream(f'{{"a": {len(sent)}}}'.encode())
        return httpx.Response(503 if len(sent) == 1 else 200, stream=body)

    limits = Limits(requests_per_s=1000)
    transport = VendorTransport(
        httpx.MockTransport(answer),
        RateLimiter(limits, "vendor", "http://vendor"),
        Deadline.after(5),
        ByteBudget("size", 1000),
        retries=FAST,
    )

    async def ask() -> None:
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get("http://vendor/x")).json() == {"a": 2}
            with pytest.raises(ConnectorError, match="GET only"):
                await client.delete("http://vendor/x")

    asyncio.run(ask())
    assert sent == ["GET", "GET"]


def test_one_function_opens_every_client_of_vendors_over_httpx() -> None:
    assert modules_with("httpx.AsyncClient(") == {"transport.py"}
    # Without the transport's limits only addresses that alerts name are read, from hosts that the
    # settings list: a trace is a stream of gigabytes.
    assert modules_with("plain_client(") == {"transport.py", "guarded_fetch.py"}


def modules_with(text: str) -> set[str]:
    """Files of connectors that hold a text."""
    folder = Path(connectors.__file__).parent
    return {path.name for path in folder.rglob("*.py") if text in path.read_text()}
