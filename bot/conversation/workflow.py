"""The durable workflows of the conversation: one answers a question, one runs the trace doctor. And
their queues."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from dbos import DBOS, StepOptions

from faultline.bot.investigation.tries import STORE_AWAY, STORE_TRIES, rest
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.runtime.instrumentation import watched
from faultline.bot.runtime.threads import ByNeed
from faultline.bot.store.conversations import Conversations

if TYPE_CHECKING:
    from faultline.bot.conversation.steps import ConversationSteps

T = TypeVar("T")

ANSWER, ANSWER_TRACE = "answer", "answer_trace"
QUESTIONS, TRACE_REQUESTS = "questions", "asked-traces"
QUEUES = {QUESTIONS: 16, TRACE_REQUESTS: 1}
"""Queue to how many at once in one worker: words take moments, a trace takes two cores for
minutes."""
POST_TRIES = 60
POST_WAIT_S = (1.0, 120.0)
"""A Slack that is down is tried again after 1 s, 2 s, 4 s ... 120 s; for how long says
`faultline.bot.conversation.steps`."""


def register_conversation(by_need: ByNeed[ConversationSteps]) -> None:
    """Make the workflows known to DBOS; before it is launched. The steps are made with the first
    question."""

    @DBOS.workflow(name=ANSWER)
    async def answer(question_id: str) -> str:
        steps = await by_need.get()
        if not await _step("word", steps.word, question_id):
            return "nothing to say"
        return await _posted(steps, question_id)

    @DBOS.workflow(name=ANSWER_TRACE)
    async def answer_trace(question_id: str) -> str:
        steps = await by_need.get()
        await _step("begin", steps.begin_trace, question_id)
        if not await _step("trace", steps.trace, question_id):
            return "nothing to say"
        return await _posted(steps, question_id)


def enqueue_questions(conversations: Conversations, engine: WorkerEngine) -> Callable[[str], None]:
    """Puts one stored question on its queue; the same one again changes nothing."""

    def enqueue(question_id: str) -> None:
        question = conversations.get(question_id)
        is_trace = question is not None and question.kind == "trace"
        queue, workflow = (TRACE_REQUESTS, ANSWER_TRACE) if is_trace else (QUESTIONS, ANSWER)
        engine.enqueue_on(queue, workflow, f"question:{question_id}", question_id)

    return enqueue


async def _posted(steps: ConversationSteps, question_id: str) -> str:
    wait, longest = POST_WAIT_S
    why = ""
    for _ in range(POST_TRIES):
        tried = await _step("post", steps.post, question_id)
        why = str(tried["why"])
        if not tried["again"]:
            break
        await rest(wait)
        wait = min(2 * wait, longest)
    return await _step("finish", steps.finish, question_id, why)


async def _step(name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    options: StepOptions = {
        "name": name,
        "retries_allowed": True,
        "max_attempts": STORE_TRIES,
        "interval_seconds": 1.0,
        "backoff_rate": 1.1,
        # Another try helps only while the store is away.
        "should_retry": lambda error: isinstance(error, STORE_AWAY),
    }
    return await DBOS.run_step_async(options, watched(f"question {name}", function), *args)
