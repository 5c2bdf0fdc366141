"""Pages by the Link header, and rate limits as GitHub and GitLab tell them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.linked_pages import (
    LinkedHttp,
    LinkedSession,
    VendorQuota,
    next_params,
)
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.connectors.local_http import Asked, LocalServer, Reply


def asked_of(
    server: LocalServer, call: Callable[[LinkedSession], Awaitable[Any]], deadline_s: float = 20
) -> Any:
    """The call's result in a separate session."""
    http = LinkedHttp(
        "github", server.url, limits=Limits(deadline_s=deadline_s, requests_per_s=1000)
    )
    return asyncio.run(in_session(http, call))


async def in_session(http: LinkedHttp, call: Callable[[LinkedSession], Awaitable[Any]]) -> Any:
    """The call's result."""
    async with http.open() as session:
        return await call(session)


def listed(most_pages: int = 3) -> Callable[[LinkedSession], Awaitable[Any]]:
    """The list at /things."""
    return lambda session: session.pages(
        "/things", [("per_page", "2")], type=list[int], most_pages=most_pages
    )


def pages(asked: Asked) -> Reply:
    """An endless list, whose links lead to another server."""
    page = int(asked.query.get("page", ["1"])[0])
    link = (
        f"<https://elsewhere.example.com/repositories/1/things?per_page=2&page={page + 1}>; "
        'rel="next"'
    )
    return Reply([page], headers={"Link": link})


def test_pages_follow_the_link_up_to_a_cap_and_stay_on_their_path(server: LocalServer) -> None:
    server.on("/things", pages)
    listing = asked_of(server, listed())
    assert (listing.values, listing.more) == ((1, 2, 3), True)
    assert server.paths() == ["/things"] * 3
    assert [a.query["per_page"] for a in server.asked] == [["2"]] * 3


def test_the_last_page_has_no_next_and_a_link_to_itself_ends(server: LocalServer) -> None:
    server.on("/things", Reply([1], headers={"Link": '<https://x/things?page=1>; rel="prev"'}))
    assert asked_of(server, listed()).more is False
    server.on("/things", Reply([1], headers={"Link": '<https://x/things?page=9>; rel="next"'}))
    listing = asked_of(server, listed(most_pages=50))
    assert (listing.values, listing.more) == ((1, 1), False)


@pytest.mark.parametrize(
    "link", ["", "<", '<x>; rel="next"', "<" * 100_000, "a" * 100_000, '<[::1>; rel="next"']
)
def test_any_link_header_is_read_or_ignored(link: str) -> None:
    started = time.process_time()
    assert not next_params({"link": link})
    assert time.process_time() - started < 2


def test_a_refusal_for_the_rate_limit_is_waited_for_and_tried_again(server: LocalServer) -> None:
    server.on(
        "/things",
        Reply({"message": "slow down"}, status=403, headers={"Retry-After": "1"}),
        Reply([1]),
    )
    started = time.monotonic()
    assert asked_of(server, listed()).values == (1,)
    assert time.monotonic() - started >= 1


def reset_in(seconds: float) -> dict[str, str]:
    """Headers of a limit that is used up."""
    now = datetime.now(UTC)
    return {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(now.timestamp() + seconds))}


@pytest.mark.parametrize("prefix", ["x-ratelimit", "ratelimit"])
@pytest.mark.parametrize("skew", [timedelta(), timedelta(hours=-5), timedelta(minutes=1)])
def test_the_end_of_a_limit_is_counted_from_the_vendors_own_clock(
    prefix: str, skew: timedelta
) -> None:
    theirs = datetime.now(UTC) + skew
    headers = {f"{prefix}-remaining": "0", f"{prefix}-reset": str(int(theirs.timestamp()) + 1800)}
    wait = VendorQuota("github").note(
        httpx.Response(403, headers=headers | {"date": format_datetime(theirs, usegmt=True)})
    )
    assert wait is not None
    assert 1790 < wait < 1810


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026", "0"])
def test_a_date_that_cannot_be_read_is_ours(date: str) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9", "date": date}
    assert VendorQuota("github").note(httpx.Response(200, headers=headers)) == 1


def test_a_limit_that_ends_after_the_deadline_stops_all_requests(server: LocalServer) -> None:
    server.on("/things", Reply({}, status=403, headers=reset_in(1800)))
    http = LinkedHttp("github", server.url, limits=Limits(deadline_s=20, requests_per_s=1000))
    for _ in range(3):
        with pytest.raises(ConnectorError, match=r"rate limit is used up.*HTTP 429"):
            asyncio.run(in_session(http, listed()))
    assert len(server.asked) == 1


def test_the_last_request_of_a_limit_stands_and_the_next_waits(server: LocalServer) -> None:
    server.on("/things", Reply([1], headers=reset_in(2)))
    http = LinkedHttp("github", server.url, limits=Limits(deadline_s=20, requests_per_s=1000))
    started = time.monotonic()
    for _ in range(2):
        assert asyncio.run(in_session(http, listed())).values == (1,)
    assert time.monotonic() - started >= 1


def test_a_secondary_limit_without_a_time_means_a_minute(server: LocalServer) -> None:
    said = {"message": "You have exceeded a secondary rate limit."}
    server.on("/things", Reply(said, status=403))
    with pytest.raises(ConnectorError, match="rate limit is used up"):
        asked_of(server, listed())
    assert len(server.asked) == 1


def test_a_plain_403_is_a_refusal_and_not_a_limit(server: LocalServer) -> None:
    server.on("/things", Reply({"message": "Resource not accessible"}, status=403))
    with pytest.raises(ConnectorError, match=r"not permitted with these credentials \(HTTP 403\)"):
        asked_of(server, listed())


def test_nothing_but_get_can_be_sent(server: LocalServer) -> None:
    with pytest.raises(ConnectorError, match="GET only"):
        asked_of(server, lambda session: session._client.post(server.url + "/things"))
    assert server.asked == []


def test_certificates_are_checked_as_the_caller_says() -> None:
    trusting_nobody = ssl.create_default_context()
    http = LinkedHttp("github", "https://127.0.0.1:9", limits=Limits(), verify=trusting_nobody)
    seen: list[object] = []
    plain = httpx.AsyncClient.__init__

    def noted(self: httpx.AsyncClient, **given: Any) -> None:
        seen.append(given.get("verify"))
        plain(self, **given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpx.AsyncClient, "__init__", noted)
        asyncio.run(in_session(http, nothing))
    assert trusting_nobody in seen


async def nothing(_: LinkedSession) -> None:
    """Ask nothing."""
