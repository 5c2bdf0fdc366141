"""Replies of a vendor's stand-in with a few values missing, on a bound, or of another type.

Which values, the seed and their place decide, not the order in which they are asked for.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply

ABSENT = object()
ONE_IN = {"missing": 12, "bound": 12, "type": 40}
"""A value of another type can cost the whole reply, so there are fewer of them."""
KINDS = tuple(ONE_IN)


def damage(server: LocalServer, kind: str, seed: int) -> None:
    """From now on the server's replies are damaged."""
    answer = server._reply

    def damaged(asked: Asked) -> Reply:
        try:
            reply = answer(asked)
        except (ValueError, LookupError, TypeError, AttributeError):
            # A damaged reply may lead to a question that makes no sense.
            return Reply({"error": "Bad Request"}, status=400)
        body = reply.body
        if isinstance(body, bytes):
            try:
                body = json.loads(body)
            except ValueError:
                return reply
        return replace(reply, body=_harmed(body, f"{seed} {asked.path}", kind))

    server._reply = damaged  # type: ignore[method-assign]


def _harmed(value: Any, place: str, kind: str) -> Any:
    if isinstance(value, dict):
        pairs = ((key, _harmed(part, f"{place}/{key}", kind)) for key, part in value.items())
        return {key: part for key, part in pairs if part is not ABSENT}
    if isinstance(value, list) and value:
        parts = (_harmed(part, f"{place}/{n}", kind) for n, part in enumerate(value))
        return [part for part in parts if part is not ABSENT]
    chance = zlib.crc32(place.encode())
    if chance % ONE_IN[kind]:
        return value
    choices = _choices(value, kind)
    return choices[(chance // ONE_IN[kind]) % len(choices)]


def _choices(value: Any, kind: str) -> Sequence[Any]:
    """What may stand in place of a value. On a bound it is of the same type, so that it is read."""
    if kind == "missing":
        return ABSENT, None
    if kind == "type":
        return None, "text", 7, [], {}, True
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, (int, float)):
        return 0, -1, 1, value * 1000, value + 1
    if isinstance(value, str) and value.replace(".", "").isdigit():
        return "0", "-1", value + "1", value + "000"
    if isinstance(value, str):
        return "", " ", value * 40, value.upper(), "0", value + "1"
    return (value,)
