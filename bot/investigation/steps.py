"""The steps of an investigation. Each can be run again after a crash: it writes the same things in
the same places.

A step gives back a small JSON value; everything large is in the case store.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from obstore.exceptions import BaseError

from analysis.alert_signal.named import with_query, with_watched_signal
from analysis.case.calls import CALLS_FILE
from analysis.case.folder import json_bytes, read_case, read_diagnosis, read_report
from analysis.case.runbooks import RUNBOOKS_FILE
from analysis.errors import ConnectorError, FaultlineError
from analysis.kinds.watched_signals import AlertQuery
from analysis.secrets.redaction import masked
from analysis.traces.job.trace_versions import TRACES
from analysis.vocabulary import Alert, Diagnosis, EvidenceKind, Scope
from bot.answer.exports.answered import ANSWERED_FILE, answer_times
from bot.answer.outcome import Answer, Outcome, PointsFromJoined, ReplyTarget
from bot.answer.view import answer_view
from bot.investigation.analyzing import analyze_with_calls, write_answer
from bot.investigation.capturing import CAPTURE, capture_part, has_traces, may_capture
from bot.investigation.collecting import assemble, collect_part, read_part, store_nothing
from bot.investigation.guiding import guided_scope, runbooks_said
from bot.investigation.learning_calls import (
    LEARNED,
    EarlierCalls,
    callees_now,
    learn_calls,
    says_callees,
    with_callees,
)
from bot.investigation.naming_service import with_named_service
from bot.investigation.remembering import (
    askable_workspaces,
    keep_in_memory,
    recall_into_case,
)
from bot.investigation.scoping import with_objective, with_related
from bot.investigation.worker_context import WorkerContext
from bot.investigation.young_systems import with_known_history
from bot.policy.service_catalogue import catalogue_name
from bot.policy.values import masked_alert
from bot.runtime.threads import in_store, in_thread
from bot.store.captures import CaptureLog
from bot.store.case_store import PARTS
from bot.store.follow_ups import FollowUps, follow_up_scope
from bot.store.memory import storable
from bot.store.store import StoredInvestigation
from connectors.abilities import KnowsAlerts, KnowsRules
from connectors.instances import likely_senders, vendor_of, worth_asking

R = TypeVar("R")

log = logging.getLogger("faultline.steps")

CHART = "charts/decisive.png"
TAKEN_UP = "worker"
HANDED_OVER = "handover"
ENDED = ("done", "failed")
MAX_CULPRIT = 300
"""Characters of a name as lists show it."""
RECOVERIES = 25
"""How often an investigation is taken up again after its worker ended, before it counts as what
ends the workers. Counted here: the engine forgets its own count when work is put back on the queue.
Workers that stopped in order do not count."""


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


class ModelAsked(TypedDict):
    """What stands after the model was asked."""

    analyzed: Analyzed
    headline: str


class Posted(TypedDict):
    """Result of one attempt to post. `again` is whether to retry."""

    again: bool
    why: str
    joined: NotRequired[bool]
    """Whether alerts joined that have places of their own there."""


ENRICH_DEADLINE_S = 5.0
"""The vendor of an alert may add details to it; the first message does not wait longer for that."""


class InvestigationSteps:
    """The steps, for one worker."""

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        self._worker = uuid.uuid4().hex[:8]
        self._resumed: set[str] = set()
        self.awaiting_retry: set[str] = set()
        """Workflows that wait for a reply target to come back: nothing is lost when they are left
        at once."""

    async def open(self, investigation_id: str) -> Opened:
        """Mark it running; fix the scope and the connectors that will be asked."""
        await self._resume(investigation_id)
        await in_store(self.context.store.start, investigation_id)
        investigation = await self._investigation(investigation_id)
        alert = await self._named(await self._with_service(investigation))
        alert = with_objective(alert, self.context.settings)
        now, recorded = datetime.now(UTC), self.context.recorded
        guiding = partial(guided_scope, alert, self.context.settings, now=now, recorded=recorded)
        scope, runbooks = await in_thread(guiding)
        if recorded is None and investigation.related:
            scope = with_related(
                scope, [one.alert for one in investigation.related], self.context.settings
            )
        if recorded is None:
            scope = await self._with_callees(investigation, alert, scope)
        follow_ups = FollowUps(self.context.store.engine)
        scope = follow_up_scope(scope, await in_store(follow_ups.scope, investigation_id))
        connectors = worth_asking(self.context.connectors, alert, scope)
        if recorded is None:
            scope = await with_known_history(alert, scope, connectors, deadline_s=ENRICH_DEADLINE_S)
        kinds = {kind for connector in connectors for kind in connector.kinds}
        scope = scope.model_copy(update={"obtainable": tuple(sorted(kinds))})
        names = [connector.name for connector in connectors]
        asked = ", ".join(names) or "no connector is configured"
        left_out = [c.name for c in self.context.connectors if c.name not in names]
        if left_out:
            asked += f"; not asked, for other places or services: {', '.join(left_out)}"
        await self._say(investigation_id, "scope", f"{_windows(scope)}; asking {asked}")
        if runbooks is not None:
            await self._put(investigation_id, RUNBOOKS_FILE, json_bytes(runbooks))
            await self._say(investigation_id, "runbooks", runbooks_said(runbooks))
        return {
            "alert": alert.model_dump(mode="json"),
            "scope": scope.model_dump(mode="json"),
            "connectors": names,
            "kinds": {connector.name: list(connector.kinds) for connector in connectors},
            "may_capture": self.context.recorded is None
            and may_capture(alert, scope, self.context.settings),
            "asks_model": self.context.settings.model.name is not None,
            "places": self._wanted(investigation),
        }

    async def announce(self, investigation_id: str, target: str) -> str:
        """First message. A target that does not answer gets its message with the final one."""
        try:
            await self._target(target).announce(await self._investigation(investigation_id))
        except ConnectorError as error:
            await self._say(investigation_id, f"announce {target}", str(error))
            return masked(str(error))
        return "announced"

    async def collect(self, investigation_id: str, connector: str, opened: Opened) -> str:
        """Ask one connector."""
        await self._resume(investigation_id)
        source = next((c for c in self.context.connectors if c.name == connector), None)
        alert, scope = _opened(opened)
        if source is None:
            kinds = opened.get("kinds", {}).get(connector, [])
            part = await in_thread(
                store_nothing, connector, kinds, self.context.cases, investigation_id
            )
        else:
            part = await collect_part(source, alert, scope, self.context.cases, investigation_id)
        await self._say(investigation_id, f"collect {connector}", part.summary)
        return part.summary

    async def capture(self, investigation_id: str, opened: Opened) -> str:
        """Ask the training job for a trace, unless the connectors found one of the incident."""
        await self._resume(investigation_id)
        context, (_, scope) = self.context, _opened(opened)
        parts = [
            await in_thread(read_part, context.cases, investigation_id, c)
            for c in opened["connectors"]
        ]
        job = None if has_traces(parts) else scope.training
        if job is not None:
            await self._say(
                investigation_id,
                "capture: asking",
                f"no trace of the incident: asking {job.name} for one",
            )
        log = CaptureLog(context.store.engine)
        part = await capture_part(job, context.settings, log, context.cases, investigation_id)
        await self._say(
            investigation_id, "capture", part.summary if job else "not needed: there are traces"
        )
        return part.summary

    async def assemble(self, investigation_id: str, opened: Opened) -> str:
        """Put the parts together into the case folder."""
        await self._resume(investigation_id)
        alert, scope = _opened(opened)
        parts = opened["connectors"] + ([CAPTURE] if opened.get("may_capture") else [])
        investigation = await self._investigation(investigation_id)
        if self.context.recorded is None:
            earlier = self._earlier_calls(investigation, alert)
            said = await in_thread(earlier.store_part, self.context.cases, investigation_id)
            if said is not None:
                parts.append(LEARNED)
                await self._say(investigation_id, "learned calls", said)
        await in_thread(assemble, alert, scope, parts, self.context.cases, investigation_id)
        if opened.get("asks_model"):
            from bot.investigation.asking_model import forget_earlier

            await in_thread(forget_earlier, self.context, investigation_id)
        days = self.context.settings.investigation.memory_days
        args = (self.context.store.engine, self.context.cases, investigation, alert)
        apart = self.context.settings.login.isolation == "teams"
        askable = askable_workspaces(self.context.settings)
        said = await in_thread(recall_into_case, *args, days=days, apart=apart, askable=askable)
        await self._say(investigation_id, "memory", said)
        return "assembled"

    async def analyze(self, investigation_id: str) -> Analyzed:
        """Findings, causes, verdict. Traces of a large case are read before, by all workers at
        once."""
        await self._resume(investigation_id)
        began = time.monotonic()
        reading, say = self.context.traces, partial(self._say, investigation_id)
        read = (
            await reading.read_all(investigation_id, say, self.awaiting_retry)
            if reading is not None
            else []
        )
        async with self._checkout(investigation_id, without=read) as folder:
            diagnosis, calls = await self._in_process(investigation_id, analyze_with_calls, folder)
        await self._put(investigation_id, "findings.json", json_bytes(diagnosis))
        await self._put(investigation_id, CALLS_FILE, json_bytes(calls))
        seconds = round(time.monotonic() - began, 3)
        said = (
            f"{len(diagnosis.findings)} findings, {diagnosis.verdict.replace('_', ' ')}, "
            f"{seconds:.1f} s"
        )
        await self._say(investigation_id, "analyze", said)
        return {
            "verdict": diagnosis.verdict.value,
            "confidence": diagnosis.confidence,
            "seconds": seconds,
        }

    async def write(self, investigation_id: str, opened: Opened) -> str:
        """Word the report and draw the decisive chart. Where a model is asked afterwards, the
        built-in writer words."""
        await self._resume(investigation_id)
        async with self._checkout(investigation_id, without=[TRACES]) as folder:
            written = await self._in_process(investigation_id, write_answer, folder)
        await self._put(investigation_id, "report.json", json_bytes(written.report))
        await self._put(investigation_id, "report.md", written.markdown.encode())
        if written.chart is not None:
            await self._put(investigation_id, CHART, written.chart)
        await self._say(investigation_id, "write", f"written by {written.report.written_by}")
        return written.report.headline

    async def preview(self, investigation_id: str, target: str) -> str:
        """The answer by code, while the model investigates. A target that does not answer gets the
        final one."""
        try:
            outcome = Outcome(
                await self._investigation(investigation_id), await self._answer(investigation_id)
            )
            await self._target(target).preview(outcome)
        except ConnectorError as error:
            await self._say(investigation_id, f"preview {target}", str(error))
            return masked(str(error))
        return "shown"

    async def ask_model(
        self, investigation_id: str, analyzed: Analyzed, headline: str
    ) -> ModelAsked:
        """The model investigates and words the report. What it asked for is in the case, and was
        analysed, then."""
        await self._resume(investigation_id)
        # Loading the client takes most of a second, and only those who named a model need it.
        from bot.investigation.asking_model import ask_model

        try:
            diagnosis, report = await ask_model(
                self.context, investigation_id, partial(self._say, investigation_id)
            )
        except (
            FaultlineError,
            BaseError,
            OSError,
            ValueError,
        ) as error:  # the answer by code stands
            said = (
                str(error)
                if isinstance(error, FaultlineError)
                else f"unexpected {type(error).__name__}"
            )
            await self._say(
                investigation_id, "model: failed", f"the model could not be asked: {said}"
            )
            return {"analyzed": analyzed, "headline": headline}
        seen: Analyzed = {
            "verdict": diagnosis.verdict.value,
            "confidence": diagnosis.confidence,
            "seconds": analyzed["seconds"],
        }
        return {"analyzed": seen, "headline": report.headline}

    async def finish(self, investigation_id: str, analyzed: Analyzed, headline: str) -> str:
        """The answer stands; what the connectors' parts held is in the case now."""
        await self._say(investigation_id, "done", headline)
        culprit, explained = await self._blamed(investigation_id)
        await in_store(
            self.context.store.finish,
            investigation_id,
            "done",
            verdict=analyzed["verdict"],
            confidence=analyzed["confidence"],
            headline=headline,
            culprit=culprit,
            explained=explained,
        )
        self._resumed.discard(investigation_id)
        investigation = await self._investigation(investigation_id)
        await in_thread(
            keep_in_memory, self.context.store.engine, self.context.cases, investigation, headline
        )
        await in_thread(
            learn_calls,
            self.context.store.engine,
            self.context.cases,
            investigation,
            self.context.settings,
        )
        try:
            await self._put(investigation_id, ANSWERED_FILE, self._answered(investigation))
            await in_thread(self.context.cases.delete, investigation_id, PARTS)
        except (
            BaseError,
            OSError,
        ) as error:  # the answer was given; parts that stay only take room
            log.warning("cannot delete parts of %s: %s", investigation_id, type(error).__name__)
        return "done"

    async def _blamed(self, investigation_id: str) -> tuple[str | None, bool | None]:
        """What the answer blames, and whether it says why; None where there is no diagnosis."""
        names = ("alert.json", "findings.json")
        alert, findings = [
            await in_thread(self.context.cases.get, investigation_id, name) for name in names
        ]
        if alert is None or findings is None:
            return None, None
        said = answer_view(
            Alert.model_validate_json(alert), Diagnosis.model_validate_json(findings), None
        )
        culprit = said.cause.subject if said.cause and said.established else None
        return (storable(culprit, MAX_CULPRIT) if culprit else None), said.explained

    async def _with_callees(
        self, investigation: StoredInvestigation, alert: Alert, scope: Scope
    ) -> Scope:
        """The scope with the services that the alerting one is seen to call, now or earlier."""
        if says_callees(scope):
            return scope
        asked = worth_asking(self.context.connectors, alert, scope)
        now = await callees_now(asked, alert, scope, ENRICH_DEADLINE_S)
        earlier = self._earlier_calls(investigation, alert)
        before = await in_store(earlier.callees, alert.service)
        return with_callees(scope, [*now, *before])

    def _earlier_calls(self, investigation: StoredInvestigation, alert: Alert) -> EarlierCalls:
        context = self.context
        return EarlierCalls(context.store.engine, investigation, alert, context.settings)

    def _answered(self, investigation: StoredInvestigation) -> bytes:
        return json_bytes(answer_times(investigation, self.context.settings.server.public_url))

    async def fail(self, investigation_id: str, reason: str) -> list[str]:
        """Record why there is no answer. Returns the reply targets to notify."""
        investigation = await self._investigation(investigation_id)
        headline = f"The investigation failed: {reason}"
        await in_store(
            self.context.store.finish,
            investigation_id,
            "failed",
            verdict=None,
            confidence=None,
            headline=headline,
        )
        await self._say(investigation_id, "failed", headline)
        self._resumed.discard(investigation_id)
        return self._wanted(investigation)

    async def reply(self, investigation_id: str, target: str) -> Posted:
        """Post the answer at one reply target."""
        outcome = await self._outcome(investigation_id)
        if outcome.investigation.status not in ENDED:
            return {"again": False, "why": "it is being run again, and that run answers"}
        try:
            await self._target(target).answer(outcome)
        except ConnectorError as error:
            await self._say(investigation_id, f"reply {target}: {error.problem}", str(error))
            return {"again": error.retryable, "why": masked(str(error))}
        await self._say(investigation_id, f"reply {target}", f"answered in {target}")
        posted: Posted = {"again": False, "why": "posted"}
        pointing = self._target(target)
        if isinstance(pointing, PointsFromJoined) and pointing.has_joined(outcome.investigation):
            posted["joined"] = True
        return posted

    async def point_from_joined(self, investigation_id: str, target: str) -> Posted:
        """Point to the answer from the places of alerts that joined."""
        pointing = self._target(target)
        assert isinstance(pointing, PointsFromJoined)
        try:
            await pointing.point_from_joined(
                Outcome(await self._investigation(investigation_id), None)
            )
        except ConnectorError as error:
            return {"again": error.retryable, "why": masked(str(error))}
        return {"again": False, "why": "posted"}

    async def _outcome(self, investigation_id: str) -> Outcome:
        investigation = await self._investigation(investigation_id)
        if investigation.status != "done":
            return Outcome(investigation, None)
        return Outcome(investigation, await self._answer(investigation_id))

    async def _answer(self, investigation_id: str) -> Answer:
        chart = await in_thread(self.context.cases.get, investigation_id, CHART)
        async with self._checkout(investigation_id, without=[TRACES]) as folder:
            case = await in_thread(read_case, folder)
            return Answer(
                read_diagnosis(folder), read_report(folder), case.evidence, case.gaps, chart, case
            )

    async def _named(self, alert: Alert) -> Alert:
        """The alert with its vendor's details and with what it watches."""
        alert = with_query(await self._enriched(alert))
        if alert.query is None:
            alert = alert.model_copy(update={"query": await self._rule_of(alert)})
        # What the vendor added has not been through the edge that the webhook went through.
        return with_watched_signal(masked_alert(alert), self.context.settings.services)

    async def _with_service(self, investigation: StoredInvestigation) -> Alert:
        alert, context = investigation.alert, self.context
        if catalogue_name(alert.service, context.settings) in context.settings.services:
            return alert
        return await with_named_service(
            alert, investigation.question, context.connectors, deadline_s=ENRICH_DEADLINE_S
        )

    async def _rule_of(self, alert: Alert) -> AlertQuery | None:
        for connector in likely_senders(self.context.connectors, alert):
            if isinstance(connector, KnowsRules):
                try:
                    async with asyncio.timeout(ENRICH_DEADLINE_S):
                        found = await connector.rule_of(alert)
                except (ConnectorError, TimeoutError):
                    continue
                if found is not None:
                    return found
        return None

    async def _enriched(self, alert: Alert) -> Alert:
        for connector in likely_senders(self.context.connectors, alert):
            if not isinstance(connector, KnowsAlerts) or vendor_of(connector) != alert.source:
                continue
            try:
                async with asyncio.timeout(ENRICH_DEADLINE_S):
                    enriched = await connector.enrich(alert)
            except (ConnectorError, TimeoutError):
                continue
            # Another account of the vendor may know the alert where this one does not.
            if enriched != alert:
                return enriched
        return alert

    async def _investigation(self, investigation_id: str) -> StoredInvestigation:
        found = await in_store(self.context.store.get, investigation_id)
        if found is None:
            raise FaultlineError(f"investigation {investigation_id} is not in the store")
        return found

    async def _in_process(
        self, investigation_id: str, function: Callable[[Path], R], folder: Path
    ) -> R:
        """Work on the case in a pooled process, the most urgent first."""
        known = await self._investigation(investigation_id)
        return await self.context.pool.run(function, folder, priority=known.priority)

    async def _resume(self, investigation_id: str) -> None:
        """Count the workers that had it. Raises FaultlineError when too many of them died
        during it."""
        if investigation_id in self._resumed:
            return
        known = await self._investigation(investigation_id)
        if (
            known.started_at is not None and known.status not in ENDED
        ):  # neither its first run nor one more
            await self._say(
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
        """This worker is about to end in order: say so of what it leaves, which then does not count
        against it."""
        for investigation_id in sorted(self._resumed):
            said = "its worker stops; another goes on with it"
            self.context.store.add_progress(
                investigation_id, HANDED_OVER, said, key=f"{HANDED_OVER}:{self._worker}"
            )

    @asynccontextmanager
    async def _checkout(
        self, investigation_id: str, without: Sequence[str] = ()
    ) -> AsyncIterator[Path]:
        """The case as a local folder; copied from S3 in a thread, so that no other investigation
        waits for that."""
        checkout = self.context.cases.checkout(investigation_id, without)
        folder = await in_thread(checkout.__enter__)
        try:
            yield folder
        finally:
            await in_thread(checkout.__exit__, None, None, None)

    def _wanted(self, investigation: StoredInvestigation) -> list[str]:
        """Names of the reply targets at which it is to be answered."""
        targets = self.context.reply_targets
        return [target.name for target in targets if target.wanted(investigation)]

    def _target(self, name: str) -> ReplyTarget:
        for target in self.context.reply_targets:
            if target.name == name:
                return target
        raise ConnectorError(name, "post", "is not configured any more")

    async def _put(self, investigation_id: str, name: str, data: bytes) -> None:
        await in_thread(self.context.cases.put, investigation_id, name, data)

    async def _say(self, investigation_id: str, stage: str, text: str) -> None:
        await in_store(
            self.context.store.add_progress, investigation_id, stage.split(":")[0], text, key=stage
        )


def _opened(opened: Opened) -> tuple[Alert, Scope]:
    return Alert.model_validate(opened["alert"]), Scope.model_validate(opened["scope"])


def _windows(scope: Scope) -> str:
    start, end = scope.incident.start, scope.incident.end
    return f"{start:%Y-%m-%d %H:%M} to {end:%H:%M} UTC"
