"""What the client asks of an API, and how a failure of the server reaches it.

Three modules fill it: `openai_api` (Responses and chat completions, by the openai package) and
`anthropic_api` (Messages, by httpx).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.turns import ModelAnswer, Turn
from faultline.bot.settings.investigation import ModelSettings

ANTHROPIC = "https://api.anthropic.com/v1"
OPENAI = "https://api.openai.com/v1"
NO_RETRY_AFTER_S = 3600.0


class ServerFailure(Exception):
    """The server refused, or could not be reached.

    `status` is None where no response came. `words` is what the server said, in lower case: it may
    quote what was sent, so it decides what to leave out and is shown nowhere. `retry_after_s` is
    what the server asks for.
    """

    def __init__(
        self,
        status: int | None = None,
        words: str = "",
        *,
        retry_after_s: float | None = None,
        timed_out: bool = False,
        problem: str = "the server cannot be reached",
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.words = words
        self.retry_after_s = retry_after_s
        self.timed_out = timed_out
        self.problem = problem


class NotOfThisApi(Exception):
    """The response is not one of this API."""


@dataclass(frozen=True)
class Listed:
    """What the endpoint says of a model. `is_listed` is None where it does not say; `context` are
    tokens."""

    is_listed: bool | None
    context: int | None = None


class ModelApi(Protocol):
    """One API of one server."""

    vendor: str
    """Named in errors."""

    async def once(self, turn: Turn, able: Abilities, answer: ModelAnswer, first_call: int) -> None:
        """One request; `answer` is filled while the response comes in, its calls numbered from
        `first_call`. Raises ServerFailure, NotOfThisApi, or FaultlineError where it gets no
        token."""

    async def listed(self, name: str) -> Listed:
        """What the endpoint knows of the model. Raises ServerFailure."""

    async def close(self) -> None:
        """Close its connections."""


def address_of(settings: ModelSettings) -> str:
    """Where the model is."""
    return settings.base_url or (ANTHROPIC if settings.api == "anthropic" else OPENAI)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """`retry-after-ms`, or `retry-after` in seconds. RFC 9110 also has a date; no provider of
    models sends one."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        # `float` reads "nan" and "inf", which fail this comparison.
        if 0 <= seconds <= NO_RETRY_AFTER_S:
            return seconds
    return None
