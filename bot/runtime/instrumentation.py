"""Counts and watches what the bot does: each request and alert that comes in, each answer of the
model, and the steps of the workflows: how long they took, how they ended, what was posted, and
when.

A replayed step is not run, and so not counted again. The name of a step is `verb target`, where the
target is a connector or a place.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.bot.policy.values import Accepted, StoredInvestigation
from faultline.bot.runtime import measures, tracing
from faultline.bot.runtime.components import HEARTBEAT, Heartbeat
from faultline.bot.runtime.logs import about, note_investigation
from faultline.bot.runtime.measures import word
from faultline.bot.runtime.threads import in_store

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

intake_log = logging.getLogger("faultline.intake")

REFUSED: Mapping[int, str] = MappingProxyType(
    {
        400: "malformed",
        401: "signature",
        403: "signature",
        404: "not configured",
        405: "method",
        408: "too slow",
        413: "too large",
        429: "too many",
        503: "not taken",
    }
)
"""What a status says; `accepted` below 400, and another word of our own for the rest."""


ALARMING = ("not taken", "failed", "signature")
"""Outcomes on which alerts are set."""


ARRIVED = "faultline.arrived"
"""In a scope's `state`: the event loop's time, in seconds, at the end of the request's head."""


def waited_s(scope: Scope) -> float:
    """How long a request has waited since its head was read; 0 where that is not known."""
    arrived = scope.get("state", {}).get(ARRIVED)
    # The event loop's clock is this one.
    return 0.0 if arrived is None else max(0.0, time.monotonic() - arrived)


class ArrivalWatch:
    """Middleware around the whole application.

    `labels` holds the paths of the alert sources, which alone it looks at, and what metrics call
    requests there.
    """

    def __init__(self, app: ASGIApp, labels: Mapping[str, str]) -> None:
        self._app = app
        self._labels = labels

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and count."""
        source = self._labels.get(scope["path"]) if scope["type"] == "http" else None
        if source is None:
            await self._app(scope, receive, send)
            return
        # From the end of the head, so that the wait for the event loop counts too.
        status, began = 0, time.monotonic() - waited_s(scope)

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            measures.WEBHOOKS.labels(source, outcome_of(status)).inc()
            measures.ACKNOWLEDGED.labels(source).observe(time.monotonic() - began)


def outcome_of(status: int) -> str:
    """Of a request, by the status of its answer; 0 where there was none."""
    if status == 0:
        return "gone"
    if status < 400:
        return "accepted"
    return REFUSED.get(status, "failed" if status >= 500 else "refused")


def alert_taken(source: str, accepted: Accepted, took_s: float) -> None:
    """An alert is in the store. From here on the log of this request names the investigation."""
    measures.ALERTS.labels(word("source", source), accepted.outcome).inc()
    if accepted.investigation_id is not None:
        note_investigation(accepted.investigation_id)
        intake_log.info("alert from %s: %s", source, accepted.outcome)
        # A duplicate's investigation has its span from the first delivery.
        if accepted.outcome != "duplicate":
            tracing.accept_span(
                accepted.investigation_id, word("source", source), accepted.outcome, took_s
            )


FAILED = "failed"


@dataclass
class Round:
    """One answer, by how it ended; `failed` where nothing usable came."""

    ending: str = FAILED


@contextlib.contextmanager
def watched_round() -> Iterator[Round]:
    """The time of one answer."""
    model_round, began = Round(), time.monotonic()
    try:
        with tracing.child_span("model round") as span:
            yield model_round
            tracing.note_outcome(span, model_round.ending)
    finally:
        measures.MODEL_ROUNDS.labels(word("ending", model_round.ending)).inc()
        measures.MODEL_TIME.observe(time.monotonic() - began)


def model_used(sent: int, cached: int, answered: int, cost_usd: float | None) -> None:
    """What one answer took; `cached` of what was sent."""
    for kind, tokens in (("input", sent), ("cached", cached), ("output", answered)):
        # A counter raises for a negative amount.
        measures.MODEL_TOKENS.labels(kind).inc(max(0, tokens))
    if cost_usd is not None:
        measures.MODEL_COST.inc(max(0.0, cost_usd))


T = TypeVar("T")
Step = Callable[..., Coroutine[Any, Any, T]]
Find = Callable[[str], StoredInvestigation | None]
"""An investigation by its id; blocks."""
PostedSince = Callable[[str, str, datetime], bool]
"""Whether the investigation's message in that place was posted after that moment; blocks."""

FIRST, ANSWER = "announce", "reply"
KINDS = {FIRST: "first", "preview": "preview", ANSWER: "answer"}
ENDS = ("finish", "fail")
WENT_WELL = ("announced", "shown")
"""What `Steps.announce` and `Steps.preview` give where they posted; anything else is why they did
not."""

step_log = logging.getLogger("faultline.steps")


def _unknown(_: str) -> StoredInvestigation | None:
    return None


def _never(_: str, __: str, ___: datetime) -> bool:
    return False


class StepWatch:
    """Where this process's steps are reported."""

    def __init__(self) -> None:
        self.heartbeat: Heartbeat = HEARTBEAT
        self.find: Find = _unknown
        self.posted_since: PostedSince = _never


WATCH = StepWatch()
"""Of this process; a worker fills it in when it starts."""


def watched(name: str, function: Step[T]) -> Step[T]:
    """The step, watched. Its first argument is the investigation's id."""

    @functools.wraps(function)
    async def run(investigation_id: str, *more: Any) -> T:
        verb, _, target = name.partition(" ")
        WATCH.heartbeat.loop_runs(asyncio.get_running_loop())
        began = datetime.now(UTC)
        with about(investigation_id), _counted(word("step", verb), word("target", target)):
            with tracing.step_span(investigation_id, verb, target) as span:
                result = await function(investigation_id, *more)
                outcome = post_outcome(verb, result)
                tracing.note_outcome(span, outcome)
            # Outside the span: counting is no part of the step.
            await _note(investigation_id, verb, target, outcome, began)
            return result

    return run


def post_outcome(verb: str, result: object) -> str | None:
    """The outcome of a post: `posted`, `again` if a later try may succeed, `refused`. None for
    other steps."""
    if verb == ANSWER and isinstance(result, dict):
        if result.get("again"):
            return "again"
        return "posted" if result.get("why") == "posted" else "refused"
    if verb in KINDS:
        return "posted" if result in WENT_WELL else "refused"
    return None


def error_family(error: BaseException) -> str:
    """Which family of `faultline.analysis.errors` it is of; else a word for the rest."""
    if isinstance(error, ConnectorError):
        return "vendor"
    if isinstance(error, BudgetExceeded):
        return "limit"
    if isinstance(error, FaultlineError):
        return "ours"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "unexpected"


@contextlib.contextmanager
def _counted(verb: str, target: str) -> Iterator[None]:
    began = time.monotonic()
    measures.STEPS_RUNNING.labels(verb).inc()
    try:
        yield
    except BaseException as error:
        measures.STEP_FAILURES.labels(verb, target, error_family(error)).inc()
        raise
    finally:
        took = time.monotonic() - began
        measures.STEPS_RUNNING.labels(verb).dec()
        measures.STEPS.labels(verb, target).observe(took)
        step_log.info("step %s: %.2f s", f"{verb} {target}".rstrip(), took)


async def first_message_posted(
    investigation: StoredInvestigation, place: str, began: datetime
) -> None:
    """A reply target was notified, from `began` on. Not every target has a first message, and
    Slack has it once."""
    if await in_store(WATCH.posted_since, investigation.id, place, began):
        now = datetime.now(UTC)
        measures.POSTS.labels(word("target", place), KINDS[FIRST], "posted").inc()
        # The clocks of two hosts may differ, so the difference may be negative.
        waited = max(0.0, (now - investigation.accepted_at).total_seconds())
        measures.FIRST_MESSAGE.labels(word("target", place)).observe(waited)


async def _note(
    investigation_id: str, verb: str, target: str, outcome: str | None, began: datetime
) -> None:
    """Count posts and ends. What goes wrong here must not cost the step."""
    try:
        # `first_message_posted` counts it, and the announcing loop calls that too.
        is_first_post = verb == FIRST and outcome == "posted"
        if outcome is not None and not is_first_post:
            measures.POSTS.labels(word("target", target), KINDS[verb], outcome).inc()
        if is_first_post or (outcome == "posted" and verb == ANSWER) or verb in ENDS:
            investigation = await in_store(WATCH.find, investigation_id)
            if investigation is not None and is_first_post:
                await first_message_posted(investigation, target, began)
            elif investigation is not None:
                _timed(investigation, verb, word("target", target))
    except Exception as error:  # noqa: BLE001  the store may be away, and the step is done
        step_log.info("not counted: %s", type(error).__name__)


def _timed(investigation: StoredInvestigation, verb: str, target: str) -> None:
    now = datetime.now(UTC)
    if verb == ANSWER:
        measures.ANSWERED.labels(target).observe(
            max(0.0, (now - investigation.accepted_at).total_seconds())
        )
        return
    verdict = word("verdict", investigation.verdict or "none") if verb == "finish" else "failed"
    measures.ENDED.labels(verdict).inc()
    tracing.root_span(investigation.id, investigation.accepted_at, now, verdict)
