"""What one address of the API does: the route and its entry in the OpenAPI document are made from
the same value."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faultline.bot.api.models import RequestModel
from faultline.bot.intake.accepting import IntakeLimits, NotAccepted
from faultline.bot.intake.payload_fields import single_line
from faultline.bot.intake.signatures import Refused, read_body
from faultline.bot.policy.people import Act
from faultline.bot.web.access import AccessControl
from faultline.bot.web.refusals import refusal

Handler = Callable[[Request, Any], Awaitable[BaseModel | Response]]
G = TypeVar("G", bound=RequestModel)

LIMITS = IntakeLimits(max_body_bytes=65_536)

log = logging.getLogger("faultline.api")


@dataclass(frozen=True)
class Operation:
    """One method of one path. `takes` is the body of a POST and the query of a GET; `gives` None
    is a stream of events. `refuses` are the statuses beside those of every operation."""

    name: str
    method: str
    path: str
    summary: str
    act: Act
    handler: Handler
    takes: type[RequestModel] | None = None
    gives: type[BaseModel] | None = None
    status: int = 200
    refuses: tuple[int, ...] = ()
    recorded_as: str | None = None
    by_key: bool = False
    """Whether it heeds an Idempotency-Key."""

    @property
    def posts(self) -> bool:
        """Whether it changes something."""
        return self.method == "POST"

    def route(self, access: AccessControl) -> Route:
        """Its route, for whoever may."""
        guard = access.open_to(self.act, self.recorded_as)
        return Route(self.path, self.answer, methods=[self.method], middleware=guard)

    async def answer(self, request: Request) -> Response:
        """Answer one request; each error as its status and one line."""
        try:
            payload = await self._payload(request)
            handler = await self.handler(request, payload)
        except Refused as error:
            message = str(error)
            return refusal(
                request, error.status, (message if message.endswith(".") else f"{message}.")
            )
        except NotAccepted as error:
            log.error("%s not taken: %s", self.path, error)
            sentence = "This could not be stored. Send the same request again."
            return refusal(request, 503, sentence, {"retry-after": "1"})
        if isinstance(handler, Response):
            return handler
        return answer_of(handler, self.status)

    async def _payload(self, request: Request) -> RequestModel | None:
        if self.posts:
            body = await read_body(request, LIMITS)
            assert self.takes is not None
            return _checked(self.takes, _parsed(body))
        query = dict(request.query_params)
        if self.takes is None:
            if query:
                raise Refused(422, f"{single_line(next(iter(query)), 60)}: is no parameter here")
            return None
        return _checked(self.takes, query)


def answer_of(model: BaseModel, status: int) -> Response:
    """The answer with this model. Numbers that JSON has none for are null."""
    return Response(model.model_dump_json(), status, media_type="application/json")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"))
    # Deeply nested JSON raises RecursionError.
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None


def _checked(model: type[G], payload: Any) -> G:
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        # Do not echo the input: it may be long, or hold secrets.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(single_line(str(part), 60) for part in first["loc"]) or "the body"
        raise Refused(422, f"{where}: {first['msg']}") from None
