"""The first step of an investigation: what the alert is about, the scope, and the
connectors to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from faultline.analysis.alert_signal.deriving import with_query, with_watched_signal
from faultline.analysis.case.folder import json_bytes
from faultline.analysis.case.runbooks import RUNBOOKS_FILE
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Scope
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.investigation.capturing import may_capture
from faultline.bot.investigation.guiding import guided_scope, runbooks_line
from faultline.bot.investigation.learning_calls import (
    EarlierCalls,
    callees_now,
    says_callees,
    with_callees,
)
from faultline.bot.investigation.replying import reply_target_names
from faultline.bot.investigation.scoping import (
    fitted_to_history,
    with_named_service,
    with_objective,
    with_related,
)
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Opened
from faultline.bot.policy.services import catalogue_name
from faultline.bot.policy.values import masked_alert
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.follow_ups import FollowUps, follow_up_scope
from faultline.bot.store.store import StoredInvestigation
from faultline.connectors.shared.contract.abilities import KnowsAlerts, KnowsRules
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.contract.instances import likely_senders, vendor_of, worth_asking

ENRICH_DEADLINE_S = 5.0
"""The vendor of an alert may add details to it; the first message does not wait longer for that."""


async def open_investigation(context: WorkerContext, investigation: StoredInvestigation) -> Opened:
    """Fix the scope and the connectors that will be asked."""
    settings, recorded = context.settings, context.recorded
    alert = await _named(context, await _with_service(context, investigation))
    alert = with_objective(alert, settings)
    now = datetime.now(UTC)
    guiding = partial(guided_scope, alert, settings, now=now, recorded=recorded)
    scope, runbooks = await in_thread(guiding)
    # A recorded case cannot be asked about more services.
    if recorded is None:
        if investigation.related:
            related = [grouped_alert.alert for grouped_alert in investigation.related]
            scope = with_related(scope, related, settings)
        scope = await _with_callees(context, investigation, alert, scope)
    follow_ups = FollowUps(context.store.engine)
    scope = follow_up_scope(scope, await in_store(follow_ups.scope, investigation.id))
    candidates = _candidates(context, alert)
    connectors = worth_asking(candidates, alert, scope)
    if recorded is None:
        scope = await fitted_to_history(alert, scope, connectors, deadline_s=ENRICH_DEADLINE_S)
    kinds = set(chain.from_iterable(connector.kinds for connector in connectors))
    scope = scope.model_copy(update={"obtainable": tuple(sorted(kinds))})
    names = [connector.name for connector in connectors]
    sources_text = ", ".join(names) or "no connector is configured"
    left_out = [c.name for c in candidates if c.name not in names]
    if left_out:
        sources_text += f"; not asked, for other places or services: {', '.join(left_out)}"
    span = f"{scope.incident.start:%Y-%m-%d %H:%M} to {scope.incident.end:%H:%M} UTC"
    await context.say(investigation.id, "scope", f"{span}; asking {sources_text}")
    if runbooks is not None:
        await context.put(investigation.id, RUNBOOKS_FILE, json_bytes(runbooks))
        await context.say(investigation.id, "runbooks", runbooks_line(runbooks))
    # Fixed here for all later steps, so that a run that is resumed takes the same ones.
    return {
        "alert": alert.model_dump(mode="json"),
        "scope": scope.model_dump(mode="json"),
        "connectors": names,
        "kinds": {connector.name: list(connector.kinds) for connector in connectors},
        "may_capture": recorded is None and may_capture(alert, scope, settings),
        "asks_model": settings.model.name is not None,
        "places": reply_target_names(context, investigation),
    }


def _candidates(context: WorkerContext, alert: Alert) -> Sequence[Connector]:
    """What may be asked. A question has no alert whose query could be evaluated."""
    if not alert.is_question:
        return context.connectors
    return [c for c in context.connectors if not isinstance(c, AlertQueryConnector)]


async def _named(context: WorkerContext, alert: Alert) -> Alert:
    """The alert with its vendor's details and with what it watches."""
    alert = with_query(await _enriched(context, alert))
    if alert.query is None:
        alert = alert.model_copy(update={"query": await _rule_of(context, alert)})
    # What the vendor added has not been through the edge that the webhook went through.
    return with_watched_signal(masked_alert(alert), context.settings.services)


async def _with_service(context: WorkerContext, investigation: StoredInvestigation) -> Alert:
    alert = investigation.alert
    if catalogue_name(alert.service, context.settings) in context.settings.services:
        return alert
    return await with_named_service(
        alert, investigation.question, context.connectors, deadline_s=ENRICH_DEADLINE_S
    )


async def _rule_of(context: WorkerContext, alert: Alert) -> AlertQuery | None:
    for connector in likely_senders(context.connectors, alert):
        if isinstance(connector, KnowsRules):
            try:
                async with asyncio.timeout(ENRICH_DEADLINE_S):
                    rule = await connector.rule_of(alert)
            except (ConnectorError, TimeoutError):
                continue
            if rule is not None:
                return rule
    return None


async def _enriched(context: WorkerContext, alert: Alert) -> Alert:
    for connector in likely_senders(context.connectors, alert):
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


async def _with_callees(
    context: WorkerContext, investigation: StoredInvestigation, alert: Alert, scope: Scope
) -> Scope:
    """The scope with the services that the alerting one is seen to call, now or earlier."""
    if says_callees(scope):
        return scope
    connectors = worth_asking(_candidates(context, alert), alert, scope)
    now = await callees_now(connectors, alert, scope, ENRICH_DEADLINE_S)
    earlier = EarlierCalls(context.store.engine, investigation, alert, context.settings)
    before = await in_store(earlier.callees, alert.service)
    return with_callees(scope, [*now, *before])
