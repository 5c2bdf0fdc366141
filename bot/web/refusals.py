"""Refusals of a request in one line: as JSON below /api, as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

API = "/api/"


def is_api(request: Request) -> bool:
    """Whether a program asks."""
    return request.url.path.startswith(API)


def refusal(
    request: Request, status: int, line: str, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer: `{"error": line}` for programs."""
    if is_api(request):
        return JSONResponse({"error": line}, status, headers)
    return PlainTextResponse(line + "\n", status, headers)


def too_many_attempts(request: Request, wait_s: int) -> Response:
    """The answer to somebody who tried too often."""
    line = f"Too many attempts; the next one counts in {wait_s} s."
    return refusal(request, 429, line, {"retry-after": str(wait_s)})
