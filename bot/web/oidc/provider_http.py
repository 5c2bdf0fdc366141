"""HTTP with the login provider: bounded in time and size, no redirects, answers decoded as one
type.

The issuer is named by the settings, the other addresses by the issuer's own discovery document over
TLS.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError

# The codes of errors in a provider's answers.

_PLAIN = re.compile(r"[a-z_]{1,40}")
"""Error codes of OAuth (RFC 6749 section 5.2, OpenID Connect Core section 3.1.2.6): nothing else is
repeated."""


def plain_code(error: str | None) -> str:
    """An error's code as the provider gave it if it is a code, so that a page can repeat it."""
    return error if error and _PLAIN.fullmatch(error) else "an error that is not of the protocol"


T = TypeVar("T")

VENDOR = "login provider"
WITHIN_S = 10.0
MAX_BYTES = 1_048_576


class _OauthError(msgspec.Struct):
    error: str = ""


async def get(call: str, url: str, type: type[T], *, bearer: str | None = None) -> T:
    """The answer to GET. Raises ConnectorError."""
    return await _ask(
        call, "GET", url, type, headers={"authorization": f"Bearer {bearer}"} if bearer else {}
    )


async def post(
    call: str, url: str, type: type[T], form: Mapping[str, str], auth: tuple[str, str] | None
) -> T:
    """The answer to a form. Raises ConnectorError."""
    return await _ask(
        call, "POST", url, type, form=form, auth=httpx.BasicAuth(*auth) if auth else None
    )


async def _ask(
    call: str,
    method: str,
    url: str,
    type: type[T],
    *,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    auth: httpx.Auth | None = None,
) -> T:
    request_headers = {
        "accept": "application/json",
        # Compressed, an answer could be far larger than the bytes that are counted.
        "accept-encoding": "identity",
        **(headers or {}),
    }
    body = bytearray()
    try:
        async with (
            asyncio.timeout(WITHIN_S),
            httpx.AsyncClient(follow_redirects=False, timeout=WITHIN_S) as client,
            client.stream(method, url, headers=request_headers, data=form, auth=auth) as response,
        ):
            async for piece in response.aiter_raw(65_536):
                body += piece
                if len(body) > MAX_BYTES:
                    raise ConnectorError(
                        VENDOR, call, f"the answer is longer than {MAX_BYTES} bytes"
                    )
            status = response.status_code
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ConnectorError(
            VENDOR, call, f"no answer within {WITHIN_S:g} s", retryable=True
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise ConnectorError(
            VENDOR, call, f"no answer ({error.__class__.__name__})", retryable=True
        ) from error
    if status != 200:
        raise ConnectorError(
            VENDOR,
            call,
            f"refused: {_error_code(bytes(body))}",
            status=status,
            retryable=status >= 500,
        )
    try:
        return msgspec.json.decode(bytes(body), type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectorError(VENDOR, call, "the answer is not understood") from error


def _error_code(body: bytes) -> str:
    try:
        # Foreign text: only a plain code is shown.
        return plain_code(msgspec.json.decode(body, type=_OauthError).error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "without a reason"
