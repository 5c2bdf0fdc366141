"""The certificates that SNS signs with, fetched when a message first names one.

Anybody can post a message that names a certificate, and nothing is known of the sender until the
certificate is here. So a known certificate is served at once whatever else is under way, each
address is fetched once for all who wait for it, and unknown ones are fetched a few at a time and a
bounded number a minute. A message that finds no room is answered 503, and SNS sends it again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from cryptography import x509

from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.cloudwatch_alarms import SNS

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets a page of at most MOST_BYTES over HTTPS. Raises OSError or httpx.HTTPError."""

MOST_BYTES = 65_536
FETCH_S = 4.0
MOST_CERTIFICATES = 64
MOST_FETCHES = 8
"""At once. With FETCH_S, a host that never answers still lets two fetches a second begin."""
FETCHES_PER_MINUTE = 120
"""Of all certificates together. SNS has a few in each region, and changes them rarely."""
MINUTE_S = 60.0
MAX_FAILED = 1024
FAILED_FOR_S = 30.0
"""A certificate that could not be fetched is not asked for again so soon."""


class SnsCertificates:
    """Those that were fetched, by address. Callers check the address first, and then what is in
    the certificate."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._certificates: dict[str, x509.Certificate] = {}
        self._failed: dict[str, float] = {}
        self._fetching: dict[str, asyncio.Task[x509.Certificate]] = {}
        self._begun: deque[float] = deque(maxlen=FETCHES_PER_MINUTE)

    async def get(self, url: str) -> x509.Certificate:
        """The certificate. Raises NotAccepted where it cannot be fetched now, BadSignature where
        it is none."""
        certificate = self._certificates.get(url)
        if certificate is not None:
            return certificate
        fetching = self._fetching.get(url)
        if fetching is None:
            self._check_room(url)
            self._begun.append(self._clock())
            fetching = asyncio.create_task(self._load(url))
            self._fetching[url] = fetching
            fetching.add_done_callback(lambda task: self._ended(url, task))
        # One sender who hangs up does not end the fetch for those who wait beside it.
        return await asyncio.shield(fetching)

    def _check_room(self, url: str) -> None:
        now = self._clock()
        if now - self._failed.get(url, -FAILED_FOR_S) < FAILED_FOR_S:
            raise NotAccepted("SNS's certificate could not be fetched a moment ago")
        if len(self._fetching) >= MOST_FETCHES:
            raise NotAccepted(f"{MOST_FETCHES} certificates of SNS are being fetched already")
        # A full deque begins with the oldest fetch that still counts.
        if len(self._begun) == FETCHES_PER_MINUTE and now - self._begun[0] < MINUTE_S:
            raise NotAccepted(f"{FETCHES_PER_MINUTE} certificates of SNS were fetched in a minute")

    async def _load(self, url: str) -> x509.Certificate:
        try:
            certificate = x509.load_pem_x509_certificate(await fetched(self._fetch, url))
        except NotAccepted:
            _keep(self._failed, url, self._clock(), MAX_FAILED)
            raise
        except ValueError:
            _keep(self._failed, url, self._clock(), MAX_FAILED)
            raise BadSignature(SNS, "it is no certificate") from None
        _keep(self._certificates, url, certificate, MOST_CERTIFICATES)
        return certificate

    def _ended(self, url: str, task: asyncio.Task[x509.Certificate]) -> None:
        del self._fetching[url]
        if not task.cancelled():
            # Where nobody waits any more, nobody else would look at the error.
            task.exception()


async def fetched(fetch: Fetch, url: str) -> bytes:
    """The page, within FETCH_S. Raises NotAccepted."""
    try:
        async with asyncio.timeout(FETCH_S):
            return await fetch(url)
    except (TimeoutError, OSError, httpx.HTTPError) as error:
        raise NotAccepted(f"SNS did not respond ({type(error).__name__})") from error


async def fetch_https(url: str) -> bytes:
    """The page at an HTTPS address, which is not to be led elsewhere."""
    async with (
        httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code != 200:
            raise httpx.HTTPError(f"status {response.status_code}")
        page = bytearray()
        async for chunk in response.aiter_bytes():
            page += chunk
            if len(page) > MOST_BYTES:
                raise httpx.HTTPError("the answer is too long")
        return bytes(page)


def _keep(values_by_url: dict[str, Any], url: str, value: Any, most: int) -> None:
    """Remember, and forget the oldest where there are many."""
    if url not in values_by_url and len(values_by_url) >= most:
        values_by_url.pop(next(iter(values_by_url)))
    values_by_url[url] = value
