"""One conversation with a model: rounds with tools, without a schema; then one answer of the form
that is asked for.

Everything is appended to the transcript, which is stored after each answer and after its tools have
run. A worker that takes over pays for no answer twice. Whatever ends the rounds, the last answer is
asked for as long as there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pydantic import BaseModel

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.bot.investigation.model.budget import Budget, LoopGuard
from faultline.bot.investigation.model.client import SMALL_ANSWER_TOKENS, ModelClient
from faultline.bot.investigation.model.drafts import CheckedDraft
from faultline.bot.investigation.model.schemas import strict_schema
from faultline.bot.investigation.model.toolbox import Toolbox, observed, safe_call
from faultline.bot.investigation.model.transcript import (
    Transcript,
    TranscriptLine,
    calls_of,
    entries,
    usage_in,
    usage_json,
)
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Carried,
    Entry,
    ModelAnswer,
    ToolCall,
    Turn,
    UserMessage,
)
from faultline.prompts import Prompt

D = TypeVar("D", bound=BaseModel)

AGAIN = "Your answer {why}. Answer again with the JSON object alone."
REPAIR = (
    "Not all of it stands:\n{refused}\nSend the whole object once more, with these corrected, "
    "said as an inference, or left out."
)
MOST_REFUSED = 12
ESTIMATE_MAY_BE_OFF = 200
"""Tokens by which a server's count of a large request differs from ours."""
SAME = (
    '{{"note": "this call was made before: its result stands above, at call {number} of this '
    'conversation"}}'
)
Progress = Callable[[str], Awaitable[None]]
"""Gets what the model asks for, in a few words."""


async def silent(_: str) -> None:
    """Progress that nobody follows."""


@dataclass
class Conversation(Generic[D]):
    """`first` is the data the model starts from, `last` asks for the answer; `read` makes it of the
    answer's text."""

    client: ModelClient
    prompt: Prompt
    first: str
    last: str
    schema: type[D]
    read: Callable[[str], D]
    review: Callable[[D], CheckedDraft]
    """What stands of a draft, and what does not with the reasons in plain words."""
    toolbox: Toolbox | None
    budget: Budget
    transcript: Transcript
    save: Callable[[], Awaitable[None]]
    progress: Progress = silent
    shorter: str = ""
    """The first data once more with less in it, for a server whose context does not hold the
    conversation."""
    _guard: LoopGuard = field(default_factory=LoopGuard)

    async def final_draft(self) -> tuple[D, str]:
        """The draft, and why the rounds ended. Raises FaultlineError when the model gives no
        draft."""
        self._begin()
        drafts = [line for line in self.transcript.lines if line.reports and not line.error]
        # An earlier worker got this far, and its drafts are paid for.
        if drafts:
            stored_draft = self._better([self.read(line.text) for line in drafts])
            return stored_draft, self.transcript.ended or "answered"
        await self.budget.open()
        ended = self.transcript.ended
        if ended is None:
            ended = await self._rounds()
            # Stored before the report is requested, so that a resumed worker skips the rounds.
            self._add(TranscriptLine(kind="ended", text=ended))
            await self.save()
        draft = await self._report()
        return await self._repaired(draft), ended

    def _begin(self) -> None:
        """A fresh transcript, or what an earlier worker left: its counts and its calls are taken
        over."""
        if not self.transcript.lines:
            prompt = f"{self.prompt.name} {self.prompt.version}"
            self._add(
                TranscriptLine(
                    kind="start",
                    text=self.prompt.text,
                    prompt=prompt,
                    model=self.budget.settings.name,
                )
            )
            self._add(TranscriptLine(kind="told", text=self.first))
            return
        self.budget.before = self.transcript.seconds
        results = {line.call: line for line in self.transcript.lines if line.kind == "result"}
        for line in self.transcript.lines:
            if line.kind == "said":
                self.budget.count_usage(usage_in(line))
                self.budget.counted = self.budget.counted and line.counted
                answered = [call for call in calls_of(line) if call.id in results]
                for call in answered:
                    self._guard.repeated(call)
                if answered:
                    self.budget.tool_calls += len(answered)
                    self._guard.ended(error=all(results[c.id].error for c in answered))
            elif line.kind == "compacted":
                self._guard.forget()
        # Only to restore the guard's state: what it says stands in the transcript already.
        self._guard.nudge()

    async def _rounds(self) -> str:
        if self.toolbox is None:
            return "answered"
        await self._run_calls(self.toolbox, self._open_calls())
        while self.client.abilities.tools:
            turn = await self._fitting()
            reached = self.budget.reached(turn)
            if reached is not None:
                return reached
            if self._guard.withdrawn:
                return "going in circles"
            try:
                answer = await self.client.answer(turn, within_s=self.budget.seconds_for_a_round)
            except BudgetExceeded as error:
                if error.what == "model context" and await self._compact():
                    continue
                # A server that was silent for a round is not asked for the report either.
                if error.what == "model time":
                    raise
                return str(error)
            except ConnectorError as error:
                # Nor is one that fails, after all tries.
                if error.retryable:
                    raise
                return str(error)
            except FaultlineError as error:
                return str(error)
            await self._record_answer(turn, answer)
            if not answer.calls:
                return (
                    "answered"
                    if answer.ending == "stop"
                    else f"an answer was {_ENDINGS[answer.ending]}"
                )
            await self._run_calls(self.toolbox, answer.calls)
            if answer.calls_left_out:
                count = len(answer.calls)
                note = f"The first {count} calls ran; {answer.calls_left_out} more did not."
                self._add(TranscriptLine(kind="told", text=note))
                await self.save()
        return "answered"

    def _open_calls(self) -> list[ToolCall]:
        """Calls of the last stored answer that have no result yet."""
        line = next((line for line in reversed(self.transcript.lines) if line.kind == "said"), None)
        answered = {line.call for line in self.transcript.lines if line.kind == "result"}
        return [c for c in calls_of(line) if c.id not in answered] if line else []

    async def _run_calls(self, toolbox: Toolbox, calls: Sequence[ToolCall]) -> None:
        """Run the calls of one answer side by side; their results stand in the calls' order."""
        earlier = {call.id: self._guard.repeated(call) for call in calls}
        new = [call for call in calls if earlier[call.id] is None]
        for call in new:
            phrase = (
                f"asks for {call.name}"
                if _is_offered(call, toolbox)
                else "asks for an unknown tool"
            )
            await self.progress(phrase)
        within_s = self.budget.seconds_for_a_round
        outcomes = await asyncio.gather(*(toolbox.run(call, within_s=within_s) for call in new))
        outcomes_by_id = {call.id: outcome for call, outcome in zip(new, outcomes, strict=True)}
        for call in calls:
            outcome = outcomes_by_id.get(call.id)
            # Every call needs a result, even a repeated one.
            if outcome is None:
                self._result(call, SAME.format(number=earlier[call.id]))
            else:
                self._result(
                    call, outcome.text, error=outcome.error, evidence_name=outcome.evidence_name
                )
        self.budget.tool_calls += len(new)
        if new:
            self._guard.ended(error=all(outcome.error for outcome in outcomes))
        if calls:
            nudge = self._guard.nudge()
            if nudge:
                self._add(TranscriptLine(kind="told", text=nudge))
            await self.save()

    def _result(
        self, call: ToolCall, text: str, *, error: bool = False, evidence_name: str | None = None
    ) -> None:
        self._add(
            TranscriptLine(
                kind="result",
                text=text,
                call=call.id,
                tool=safe_call(call).name,
                error=error,
                asked=evidence_name,
            )
        )

    async def _report(self) -> D:
        """The last answer: after the whole history; where that does not fit, after the shorter data
        and what was observed, and at last after the shorter data alone."""
        text = [line.text for line in self.transcript.lines if line.kind == "told"]
        # A worker that takes over finds the request in the transcript already.
        if self.last and self.last not in text:
            self._add(TranscriptLine(kind="told", text=self.last))
        while True:
            turn = await self._fitting(report=True)
            try:
                return await self._drafted(turn.history)
            except BudgetExceeded as error:
                if error.what != "model context":
                    raise
                if not await self._compact():
                    return await self._report_in_short()

    async def _report_in_short(self) -> D:
        """The last answer without the history, which the server's context does not hold."""
        digest = observed(line.text for line in self.transcript.lines if line.kind == "result")
        for more in dict.fromkeys((digest, "")):
            texts = (self.shorter or self.first, more, self.last)
            try:
                return await self._drafted([UserMessage(t) for t in texts if t], bare=True)
            except BudgetExceeded as error:
                if error.what != "model context" or not more:
                    raise
        raise AssertionError

    async def _fitting(self, *, report: bool = False) -> Turn:
        """The next turn, compacted until it fits the server's context."""
        while True:
            turn = self._turn(self._history(), report=report)
            context = self.client.context
            taken = self.budget.estimated(turn) + turn.max_output_tokens
            if context is None or taken <= context or not await self._compact():
                return turn

    async def _compact(self) -> bool:
        """Send earlier results in short from here on: first those before the last answer, then all,
        and the first data in its shorter form. Findings and observations keep their ids. Says
        whether there was something left to shorten."""
        results = earlier = shortened = 0
        first = ""
        for line in self.transcript.lines:
            if line.reports:
                continue
            if line.kind == "result":
                results += 1
            elif line.kind == "said" and line.calls:
                earlier = results
            elif line.kind == "compacted":
                shortened, first = line.shortened, line.text
        if earlier > shortened:
            more = TranscriptLine(kind="compacted", shortened=earlier, text=first)
        elif results > shortened or (self.shorter and not first):
            more = TranscriptLine(kind="compacted", shortened=results, text=self.shorter)
        else:
            return False
        self._add(more)
        self._guard.forget()
        await self.save()
        return True

    async def _repaired(self, draft: D) -> D:
        """The draft, or a second one where parts of the first do not stand and there is room."""
        refused = self.review(draft).refused[:MOST_REFUSED]
        if not refused:
            return draft
        note = REPAIR.format(refused="\n".join(f"- {why}" for why in refused))
        lines = [line for line in self.transcript.lines if line.reports and not line.error]
        history = [*self._history(), AssistantMessage(lines[-1].text), UserMessage(note)]
        if self.budget.reached(self._turn(history, report=True)) is not None:
            return draft
        self._add(TranscriptLine(kind="told", text=note))
        try:
            return self._better([draft, await self._drafted(history)])
        # The first draft stands, whatever a server makes of the second; the transcript says why.
        except Exception as error:  # noqa: BLE001
            why = str(error) if isinstance(error, FaultlineError) else type(error).__name__
            self._add(TranscriptLine(kind="failed", text=f"no second answer: {why}"))
            await self.save()
            return draft

    def _better(self, drafts: Sequence[D]) -> D:
        """The draft with the most claims and grounds that stand, then the fewest refused, then the
        later one. A correction may hold the corrected claims alone, so the later draft is not
        always better."""

        def merit(draft: D) -> tuple[int, int]:
            review = self.review(draft)
            verdict = review.verdict
            standing = len(review.claims) + (1 + len(verdict.claims) if verdict else 0)
            return standing, -len(review.refused)

        # Of equals, `max` takes the first one, so begin with the latest.
        return max(reversed(drafts), key=merit)

    async def _drafted(self, history: Sequence[Entry], *, bare: bool = False) -> D:
        for again in (True, False):
            turn = self._with_room(self._turn(history, report=True, bare=bare))
            answer = await self.client.answer(turn, within_s=max(1.0, self.budget.seconds_left))
            draft, why = self._read(answer)
            await self._record_answer(turn, answer, reports=True, error=draft is None)
            if draft is not None:
                return draft
            if answer.ending == "refused":
                raise ConnectorError("model", "answer", "the model refused")
            if answer.ending == "length" and not answer.text.strip():
                raise BudgetExceeded("model output", f"{turn.max_output_tokens} tokens")
            if not again or self.budget.reached(turn) is not None:
                raise ConnectorError("model", "answer", f"the answer {why}")
            self.client.disbelieve_schema()
            note = AGAIN.format(why=why)
            self._add(TranscriptLine(kind="told", text=note))
            message = AssistantMessage(answer.text or "-", carried=self._carried(answer))
            history = [*history, message, UserMessage(note)]
        raise AssertionError

    def _read(self, answer: ModelAnswer) -> tuple[D | None, str]:
        """The draft, or what is wrong with the answer."""
        if answer.ending == "refused" or not answer.text.strip():
            return None, "is empty"
        try:
            return self.read(answer.text), ""
        except ValueError as error:
            return None, str(error)

    def _turn(self, history: Sequence[Entry], *, report: bool = False, bare: bool = False) -> Turn:
        schema = (self.schema.__name__, strict_schema(self.schema)) if report else None
        limit = self.budget.settings.max_output_tokens
        specs = self.toolbox.specs if self.toolbox and not bare else ()
        return Turn(self.prompt.text, history, limit, specs, schema)

    def _with_room(self, turn: Turn) -> Turn:
        """A short answer is better than a request that is refused for its size."""
        context = self.client.context
        if context is None:
            return turn
        room = context - self.budget.estimated(turn) - ESTIMATE_MAY_BE_OFF
        limit = min(turn.max_output_tokens, max(SMALL_ANSWER_TOKENS, room))
        return replace(turn, max_output_tokens=limit)

    def _history(self) -> list[Entry]:
        # Without drafts: `_repaired` adds the one that it corrects.
        return entries([line for line in self.transcript.lines if not line.reports])

    async def _record_answer(
        self, turn: Turn, answer: ModelAnswer, *, reports: bool = False, error: bool = False
    ) -> None:
        usage = self.budget.count(turn, answer)
        carried = self._carried(answer)
        calls = [] if reports else [safe_call(c) for c in answer.calls]
        self._add(
            TranscriptLine(
                kind="said",
                text=answer.text,
                calls=[{"id": c.id, "name": c.name, "arguments": c.arguments} for c in calls],
                usage=usage_json(usage),
                counted=answer.usage is not None,
                ending=answer.ending,
                reports=reports,
                error=error,
                carried={"of": carried.of, "fields": dict(carried.fields)} if carried else None,
            )
        )
        await self.save()
        await self.budget.pay(usage)

    def _carried(self, answer: ModelAnswer) -> Carried | None:
        return Carried(self.client.reader, answer.carried) if answer.carried else None

    def _add(self, line: TranscriptLine) -> None:
        self.transcript.add(line.model_copy(update={"seconds": round(self.budget.seconds, 3)}))


_ENDINGS = {
    "length": "cut at its limit of tokens",
    "refused": "refused",
    "lost": "cut off by the server",
}


def _is_offered(call: ToolCall, toolbox: Toolbox) -> bool:
    return any(spec.name == call.name for spec in toolbox.specs)
