"""The steps of an investigation. Each can be run again after a crash: it writes the same things in
the same places.

A step gives back a small JSON value; everything large is in the case store.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from functools import partial

from obstore.exceptions import BaseError

from faultline.analysis.case.calls import CALLS_FILE
from faultline.analysis.case.folder import json_bytes
from faultline.analysis.case.rounds import ROUNDS_FILE, Lead, Rounds
from faultline.analysis.errors import FaultlineError
from faultline.analysis.traces.job.trace_versions import TRACES
from faultline.bot.investigation import finishing, replying
from faultline.bot.investigation.analyzing import CHART, Analysis, analyze_with_leads, write_answer
from faultline.bot.investigation.capturing import CAPTURE, capture_part, has_traces
from faultline.bot.investigation.collecting import assemble, collect_part, read_part, store_nothing
from faultline.bot.investigation.giving_way import GivingWay
from faultline.bot.investigation.joining import join_incident
from faultline.bot.investigation.learning_calls import LEARNED, EarlierCalls, learn_calls
from faultline.bot.investigation.opening import open_investigation
from faultline.bot.investigation.remembering import askable_workspaces, recall_into_case
from faultline.bot.investigation.rounds import (
    ask_round,
    next_round,
    part_names,
    round_line,
    stored_request,
    stored_rounds,
)
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import (
    Analyzed,
    ModelStepResult,
    Opened,
    Posted,
    alert_and_scope,
)
from faultline.bot.policy.priority import URGENT
from faultline.bot.policy.values import ENDED
from faultline.bot.runtime.threads import go_first, in_store, in_thread
from faultline.bot.store.follow_ups import CaptureLog

TAKEN_UP = "worker"
HANDED_OVER = "handover"
RECOVERIES = 25
"""How often an investigation is taken up again after its worker ended, before it counts as what
ends the workers. Counted here: the engine forgets its own count when work is put back on the queue.
Workers that stopped in order do not count."""


class InvestigationSteps:
    """The steps, for one worker."""

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        self._worker = uuid.uuid4().hex[:8]
        self._resumed: set[str] = set()
        self._giving_way = GivingWay()
        self.awaiting_retry: set[str] = set()
        """Workflows that wait for a reply target to come back: nothing is lost when they are left
        at once."""

    async def open(self, investigation_id: str) -> Opened:
        """Mark it running; fix the scope and the connectors that will be asked."""
        await self._resume(investigation_id)
        # Resume first: a run that has not started yet is not taken up again.
        await in_store(self.context.store.start, investigation_id)
        investigation = await self.context.investigation(investigation_id)
        return await open_investigation(self.context, investigation)

    async def announce(self, investigation_id: str, target: str) -> str:
        """First message."""
        return await replying.announce(self.context, investigation_id, target)

    async def collect(self, investigation_id: str, connector: str, opened: Opened) -> str:
        """Ask one connector."""
        await self._resume(investigation_id)
        source = next((c for c in self.context.connectors if c.name == connector), None)
        alert, scope = alert_and_scope(opened)
        if source is None:
            kinds = opened.get("kinds", {}).get(connector, [])
            part = await in_thread(
                store_nothing, connector, kinds, self.context.cases, investigation_id
            )
        else:
            part = await collect_part(source, alert, scope, self.context.cases, investigation_id)
        await self.context.say(investigation_id, f"collect {connector}", part.summary)
        return part.summary

    async def capture(self, investigation_id: str, opened: Opened) -> str:
        """Ask the training job for a trace, unless the connectors found one of the incident."""
        await self._resume(investigation_id)
        context, (_, scope) = self.context, alert_and_scope(opened)
        parts = [
            await in_thread(read_part, context.cases, investigation_id, c)
            for c in opened["connectors"]
        ]
        job = None if has_traces(parts) else scope.training
        if job is not None:
            await self.context.say(
                investigation_id,
                "capture: asking",
                f"no trace of the incident: asking {job.name} for one",
            )
        log = CaptureLog(context.store.engine)
        # Without a job, too: `assemble` reads a part for each name.
        part = await capture_part(job, context.settings, log, context.cases, investigation_id)
        await self.context.say(
            investigation_id, "capture", part.summary if job else "not needed: there are traces"
        )
        return part.summary

    async def assemble(self, investigation_id: str, opened: Opened) -> str:
        """Put the parts together into the case folder."""
        await self._resume(investigation_id)
        alert, scope = alert_and_scope(opened)
        parts = opened["connectors"] + ([CAPTURE] if opened.get("may_capture") else [])
        investigation = await self.context.investigation(investigation_id)
        if self.context.recorded is None:
            earlier = EarlierCalls(
                self.context.store.engine, investigation, alert, self.context.settings
            )
            part = await in_thread(earlier.store_part, self.context.cases, investigation_id)
            if part is not None:
                parts.append(LEARNED)
                await self.context.say(investigation_id, "learned calls", part)
        await in_thread(assemble, alert, scope, parts, self.context.cases, investigation_id)
        # An earlier run asked what its own evidence led to.
        await self.context.put(investigation_id, ROUNDS_FILE, json_bytes(Rounds()))
        if opened.get("asks_model"):
            from faultline.bot.investigation.asking_model import forget_earlier

            await in_thread(forget_earlier, self.context, investigation_id)
        days = self.context.settings.investigation.memory_days
        args = (self.context.store.engine, self.context.cases, investigation, alert)
        apart = self.context.settings.login.isolation == "teams"
        askable = askable_workspaces(self.context.settings)
        part = await in_thread(recall_into_case, *args, days=days, apart=apart, askable=askable)
        await self.context.say(investigation_id, "memory", part)
        return "assembled"

    async def analyze(self, investigation_id: str) -> Analyzed:
        """Findings, causes, verdict. Traces of a large case are read before, by all workers at
        once."""
        await self._resume(investigation_id)
        began = time.monotonic()
        reading, say = self.context.traces, partial(self.context.say, investigation_id)
        read = (
            await reading.read_all(investigation_id, say, self.awaiting_retry)
            if reading is not None
            else []
        )
        analysis = await self._analysis(investigation_id, read)
        analysed_at = time.monotonic()
        while await self._followed(investigation_id, analysis.leads, analysed_at):
            analysis = await self._analysis(investigation_id, read)
        diagnosis = analysis.diagnosis
        await self.context.put(investigation_id, CALLS_FILE, json_bytes(analysis.calls))
        # Now: the next alert of this incident may be seconds away, and joins by these calls.
        investigation = await self.context.investigation(investigation_id)
        await in_thread(
            learn_calls,
            self.context.store.engine,
            self.context.cases,
            investigation,
            self.context.settings,
        )
        if await join_incident(self.context, investigation, analysis):
            self._resumed.discard(investigation_id)
            return {"verdict": "", "confidence": 0.0, "seconds": 0.0, "joined": True}
        await self.context.put(investigation_id, "findings.json", json_bytes(diagnosis))
        seconds = round(time.monotonic() - began, 3)
        phrase = (
            f"{len(diagnosis.findings)} findings, {diagnosis.verdict.replace('_', ' ')}, "
            f"{seconds:.1f} s"
        )
        await self.context.say(investigation_id, "analyze", phrase)
        return {
            "verdict": diagnosis.verdict.value,
            "confidence": diagnosis.confidence,
            "seconds": seconds,
        }

    async def _analysis(self, investigation_id: str, read: Sequence[str]) -> Analysis:
        # The records stand for the traces that were read.
        async with self.context.checkout(investigation_id, without=read) as folder:
            return await self.context.in_process(investigation_id, analyze_with_leads, folder)

    async def _followed(
        self, investigation_id: str, leads: Sequence[Lead], analysed_at: float
    ) -> bool:
        """Ask about what the evidence leads to, and put the case together again; whether anything
        was asked."""
        context, cases = self.context, self.context.cases
        if context.recorded is not None:
            return False
        request = await in_thread(stored_request, cases, investigation_id)
        if request is None:
            return False
        alert, scope = request
        rounds = await in_thread(stored_rounds, cases, investigation_id)
        following = next_round(rounds, leads, context.connectors, alert, scope, analysed_at)
        if following.round is None:
            if following.why is not None:
                rounds = rounds.model_copy(update={"left": tuple(leads), "why_left": following.why})
                await context.put(investigation_id, ROUNDS_FILE, json_bytes(rounds))
            return False
        stage = f"round {following.round.number}"
        await context.say(investigation_id, stage, round_line(following.round))
        await ask_round(
            following.round, context.connectors, alert, scope, cases, investigation_id, rounds
        )
        rounds = rounds.model_copy(update={"rounds": (*rounds.rounds, following.round)})
        names = part_names(scope.connectors, rounds)
        await in_thread(assemble, alert, scope, names, cases, investigation_id)
        # Last, so that a step that is run again asks again what is not in the case yet.
        await context.put(investigation_id, ROUNDS_FILE, json_bytes(rounds))
        return True

    async def write(self, investigation_id: str, opened: Opened) -> str:
        """Word the report and draw the decisive chart. Where a model is asked afterwards, the
        built-in writer words."""
        await self._resume(investigation_id)
        async with self.context.checkout(investigation_id, without=[TRACES]) as folder:
            written = await self.context.in_process(investigation_id, write_answer, folder)
        await self.context.put(investigation_id, "report.json", json_bytes(written.report))
        await self.context.put(investigation_id, "report.md", written.markdown.encode())
        if written.chart is not None:
            await self.context.put(investigation_id, CHART, written.chart)
        await self.context.say(investigation_id, "write", f"written by {written.report.written_by}")
        return written.report.headline

    async def preview(self, investigation_id: str, target: str) -> str:
        """The answer by code, while the model investigates."""
        return await replying.preview(self.context, investigation_id, target)

    async def ask_model(
        self, investigation_id: str, analyzed: Analyzed, headline: str
    ) -> ModelStepResult:
        """The model investigates and words the report. What it asked for is in the case, and was
        analysed, then."""
        await self._resume(investigation_id)
        self._giving_way.end(investigation_id)  # a model may think for minutes
        # Loading the client takes most of a second, and only those who named a model need it.
        from faultline.bot.investigation.asking_model import ask_model

        try:
            diagnosis, report = await ask_model(
                self.context, investigation_id, partial(self.context.say, investigation_id)
            )
        except (
            FaultlineError,
            BaseError,
            OSError,
            ValueError,
        ) as error:  # the answer by code stands
            phrase = (
                str(error)
                if isinstance(error, FaultlineError)
                else f"unexpected {type(error).__name__}"
            )
            await self.context.say(
                investigation_id, "model: failed", f"the model could not be asked: {phrase}"
            )
            return {"analyzed": analyzed, "headline": headline}
        updated_analysis: Analyzed = {
            "verdict": diagnosis.verdict.value,
            "confidence": diagnosis.confidence,
            "seconds": analyzed["seconds"],
        }
        return {"analyzed": updated_analysis, "headline": report.headline}

    async def finish(self, investigation_id: str, analyzed: Analyzed, headline: str) -> str:
        """The answer stands; what the connectors' parts held is in the case now."""
        # The answer comes first: what is learned only helps later investigations.
        await finishing.store_answer(self.context, investigation_id, analyzed, headline)
        self._resumed.discard(investigation_id)
        await finishing.keep_learned(self.context, investigation_id, headline)
        return "done"

    async def fail(self, investigation_id: str, reason: str) -> list[str]:
        """Record why there is no answer. Returns the reply targets to notify."""
        investigation = await self.context.investigation(investigation_id)
        headline = f"The investigation failed: {reason}"
        await in_store(
            self.context.store.finish,
            investigation_id,
            "failed",
            verdict=None,
            confidence=None,
            headline=headline,
        )
        await self.context.say(investigation_id, "failed", headline)
        self._resumed.discard(investigation_id)
        return replying.reply_target_names(self.context, investigation)

    async def reply(self, investigation_id: str, target: str) -> Posted:
        """Post the answer at one reply target."""
        await self._giving_way.rest(investigation_id)
        try:
            return await replying.reply(self.context, investigation_id, target)
        finally:
            # Also after a failure: other investigations must not wait for a vendor.
            self._giving_way.end(investigation_id)

    async def point_from_joined(self, investigation_id: str, target: str) -> Posted:
        """Point to the answer from the places of alerts that joined."""
        go_first(False)  # there may be hundreds
        return await replying.point_from_joined(self.context, investigation_id, target)

    async def _resume(self, investigation_id: str) -> None:
        """Give way to urgent ones, and count the workers that had it. Raises FaultlineError when
        too many of them died during it."""
        if investigation_id not in self._resumed:
            await self._take_up(investigation_id)
        await self._giving_way.rest(investigation_id)

    async def _take_up(self, investigation_id: str) -> None:
        investigation = await self.context.investigation(investigation_id)
        if investigation.priority == URGENT:
            self._giving_way.begin(investigation_id)
        if (
            investigation.started_at is not None and investigation.status not in ENDED
        ):  # neither its first run nor one more
            await self.context.say(
                investigation_id,
                f"{TAKEN_UP}:{self._worker}",
                "taken up again after its worker ended",
            )
            lines = await in_store(self.context.store.progress, investigation_id)
            stages = [line.stage for line in lines]
            if stages.count(TAKEN_UP) - stages.count(HANDED_OVER) > RECOVERIES:
                raise FaultlineError(f"{RECOVERIES} workers died during it")
        self._resumed.add(investigation_id)

    def release(self) -> None:
        """This worker is about to end in order. Say so for each investigation that it leaves, so
        that this does not count against it."""
        for investigation_id in sorted(self._resumed):
            phrase = "its worker stops; another goes on with it"
            self.context.store.add_progress(
                investigation_id, HANDED_OVER, phrase, key=f"{HANDED_OVER}:{self._worker}"
            )
