"""The durable workflows: one investigates, one per reply target answers.

Read top to bottom: that is the way of an alert.

An investigation never waits for a reply target: what it shows there on the way is posted beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from dbos import DBOS, SetWorkflowID, StepOptions

from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope
from faultline.bot.investigation.tries import STORE_TRIES, reason, rest, worth_another
from faultline.bot.queue.engine_database import WORKFLOW_INVESTIGATE, WORKFLOW_REPLY, reply_queue
from faultline.bot.runtime.instrumentation import watched
from faultline.bot.runtime.threads import ByNeed

if TYPE_CHECKING:
    from faultline.bot.investigation.steps import InvestigationSteps

T = TypeVar("T")

log = logging.getLogger("faultline.workflow")

REPLY_TRIES = 200
REPLY_WAIT_S = (1.0, 300.0)
"""A place that is down is tried again after 1 s, 2 s, 4 s ... 300 s: for most of a day in all."""


def register_workflows(by_need: ByNeed[InvestigationSteps]) -> None:
    """Make the workflows known to DBOS; before it is launched. The steps load most of the bot, so
    they are made with the first workflow."""

    @DBOS.workflow(name=WORKFLOW_REPLY)
    async def reply(investigation_id: str, place: str) -> str:
        steps = await by_need.get()
        waiting = steps.awaiting_retry
        posted = await tried(waiting, f"reply {place}", steps.reply, investigation_id, place)
        # A separate step, so that the answer counts as posted before.
        if posted.get("joined"):
            point = steps.point_from_joined
            await tried(waiting, f"joined {place}", point, investigation_id, place)
        return str(posted["why"])

    async def tried(
        waiting: set[str],
        name: str,
        step: Callable[[str, str], Coroutine[Any, Any, Posted]],
        *about: str,
    ) -> Posted:
        wait, longest = REPLY_WAIT_S
        workflow_id = DBOS.workflow_id or ""
        for _ in range(REPLY_TRIES):
            try:
                posted = await _step(name, step, *about)
            # The edge of a reply: a case store may be away, as a place may.
            except Exception as error:  # noqa: BLE001
                posted = {"again": True, "why": f"unexpected {type(error).__name__}"}
            if not posted["again"]:
                return posted
            waiting.add(workflow_id)
            await rest(wait)
            waiting.discard(workflow_id)
            wait = min(2 * wait, longest)
        return {"again": False, "why": f"given up: {posted['why']}"}

    @DBOS.workflow(name=WORKFLOW_INVESTIGATE)
    async def investigate(investigation_id: str) -> str:
        steps = await by_need.get()
        try:
            places = await _answer(steps, investigation_id)
        # The edge of an investigation: it ends with an explanation.
        except Exception as error:  # noqa: BLE001
            DBOS.logger.exception("investigation %s failed", investigation_id)
            places = await _step("fail", steps.fail, investigation_id, reason(error))
        for place in places:
            with SetWorkflowID(f"{DBOS.workflow_id}:{place}"):  # its own for each run
                await DBOS.enqueue_workflow_async(
                    reply_queue(place), reply, investigation_id, place
                )
        return "answered" if places else "stored"


async def _answer(steps: InvestigationSteps, investigation_id: str) -> list[str]:
    """Open, announce and collect at once, capture, assemble, analyze, write, finish. Returns the
    places to answer in.

    With a model the answer by code is shown while the model investigates.
    """
    opened = await _step("open", steps.open, investigation_id)
    places = opened["places"]
    for place in places:
        _beside(f"announce {place}", steps.announce, investigation_id, place)
    collect_steps = [
        _reserved(f"collect {c}", steps.collect, investigation_id, c, opened)
        for c in opened["connectors"]
    ]
    await asyncio.gather(*collect_steps)
    if opened.get("may_capture"):
        await _step("capture", steps.capture, investigation_id, opened)
    await _step("assemble", steps.assemble, investigation_id, opened)
    analyzed = await _step("analyze", steps.analyze, investigation_id)
    # Its messages point to the investigation that it became a part of.
    if analyzed.get("joined"):
        return places
    headline = await _step("write", steps.write, investigation_id, opened)
    if opened.get("asks_model"):
        for place in places:
            _beside(f"preview {place}", steps.preview, investigation_id, place)
        step = await _step("model", steps.ask_model, investigation_id, analyzed, headline)
        analyzed, headline = step["analyzed"], step["headline"]
    await _step("finish", steps.finish, investigation_id, analyzed, headline)
    return places


async def _step(name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    return await DBOS.run_step_async(_options(name), watched(name, function), *args)


def _reserved(
    name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any
) -> Coroutine[Any, Any, T]:
    """A step whose number is drawn now, so that steps that run at once replay in the same order."""
    return DBOS.reserve_step().run_async(_options(name), watched(name, function), *args)


_UNDER_WAY: set[asyncio.Task[str]] = set()
"""Steps that nothing waits for; the event loop itself would forget them."""


def _beside(name: str, function: Callable[..., Coroutine[Any, Any, str]], *args: Any) -> None:
    """Begin a step whose end the workflow does not wait for. Lost with its worker, it is made up
    for by the reply."""

    def ended(task: asyncio.Task[str]) -> None:
        _UNDER_WAY.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning(
                "%s: %s; the reply will include it",
                task.get_name(),
                type(task.exception()).__name__,
            )

    task = asyncio.create_task(_reserved(name, function, *args), name=name)
    _UNDER_WAY.add(task)
    task.add_done_callback(ended)


def _options(name: str) -> StepOptions:
    return {
        "name": name,
        "retries_allowed": True,
        "max_attempts": STORE_TRIES,
        "interval_seconds": 1.0,
        "backoff_rate": 1.1,
        "should_retry": worth_another(),
    }


# What the steps of an investigation give back: small JSON values, which the engine keeps. Results
# that an earlier version kept lack what came later.


class Opened(TypedDict):
    """What the first step fixed for all later ones, as JSON values."""

    alert: dict[str, Any]
    scope: dict[str, Any]
    connectors: list[str]
    kinds: NotRequired[dict[str, list[EvidenceKind]]]
    """What each connector would bring."""
    may_capture: NotRequired[bool]
    """Whether the training job may be asked for a capture."""
    asks_model: NotRequired[bool]
    """Whether a model investigates further once code has answered."""
    places: list[str]
    """Names of the reply targets. Steps that an earlier version kept call them so."""


class Analyzed(TypedDict):
    """The small summary of the analysis."""

    verdict: str
    confidence: float
    seconds: float
    joined: NotRequired[bool]
    """Whether it became a part of another investigation: then it has no answer."""


class ModelStepResult(TypedDict):
    """What stands after the model was asked."""

    analyzed: Analyzed
    headline: str


class Posted(TypedDict):
    """Result of one attempt to post. `again` is whether to retry."""

    again: bool
    why: str
    joined: NotRequired[bool]
    """Whether alerts joined that have their own places there."""


def alert_and_scope(opened: Opened) -> tuple[Alert, Scope]:
    """What the first step fixed, as values."""
    return Alert.model_validate(opened["alert"]), Scope.model_validate(opened["scope"])
