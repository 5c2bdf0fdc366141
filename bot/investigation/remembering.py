"""Memory at work: what is recalled when a case is put together, and what is kept when its answer
stands.

What is recalled is written into the case, earlier.json, and only the analysis says whether it holds
again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import Engine

from faultline.analysis.case.earlier import (
    EARLIER_FILE,
    AlertCount,
    Earlier,
    EarlierCause,
    EarlierInvestigation,
    HostRecord,
    Judged,
    Recalled,
    Why,
)
from faultline.analysis.case.folder import json_bytes
from faultline.analysis.vocabulary import Alert, Diagnosis, Scope
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import storable
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import AnswerLabel, Labels
from faultline.bot.store.memory import Memory
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.visibility import SlackChannelFacts, Visibility

log = logging.getLogger("faultline.memory")

SHORT_DAYS = 30
"""How often an alert was seen is counted over these days, or over the whole memory if it was seen
in none of them."""
SAME_ALERT, SAME_SERVICE, LIKE_WORDS = 3, 6, 6
"""How many are recalled. The latter two are reported only if their cause holds again, so more
of them are tested."""
MAX_SERVICES = 30
MAX_CHARACTERS = 500


def askable_workspaces(settings: Settings) -> frozenset[str]:
    """The Slack workspaces that can be asked who reads their channels."""
    workspaces = settings.per_instance("slack")
    return frozenset(
        workspace.slack.instance.name
        for workspace in workspaces
        if workspace.slack.bot_token is not None
    )


def recall(
    engine: Engine,
    investigation: StoredInvestigation,
    alert: Alert,
    *,
    days: float,
    apart: bool = False,
    askable: Collection[str] | None = None,
    of_job: bool = False,
) -> Earlier:
    """What memory knows of an alert: answered before it was accepted, within a number of days
    before. For a training job, also the machines that were blamed more than once.

    `apart`: only of the same team, and of no team. What came from a Slack channel that is not known
    to be public is recalled in that channel alone; `askable` as for `SlackChannelFacts.told_in`.
    """
    before = investigation.accepted_at
    if days <= 0:
        return Earlier(asked_at=before)
    since = before - timedelta(days=days)
    channels = SlackChannelFacts(engine).mentionable_in(
        investigation.reply_to.slack_channel, askable
    )
    teams = frozenset({investigation.team} - {""}) if apart else None
    visibility = Visibility(teams, channels)
    memory, labels = Memory(engine, visibility), Labels(engine, visibility)
    first = memory.get(FollowUps(engine).first(investigation.id))
    incident_ids = {investigation.id, first.id} if first else {investigation.id}
    services = [alert.service] if alert.service else []
    # One more than is shown, because this incident may be among them.
    same = memory.same_alert(alert, since=since, before=before, limit=SAME_ALERT + 1)
    beside = memory.of_services(
        services, since=since, before=before, limit=SAME_SERVICE + SAME_ALERT
    )
    like = memory.of_like_words(
        alert.title, since=since, before=before, limit=LIKE_WORDS + SAME_ALERT
    )
    matches: dict[str, tuple[Why, EarlierInvestigation]] = {}
    groups: tuple[tuple[Why, list[EarlierInvestigation], int], ...] = (
        ("same_alert", same, SAME_ALERT),
        ("same_service", beside, SAME_SERVICE),
        ("similar_words", like, LIKE_WORDS),
    )
    for why, group, most in groups:
        fresh = [e for e in group if e.id not in incident_ids and e.id not in matches]
        matches |= {e.id: (why, e) for e in fresh[:most]}
    judged = labels.of(matches)
    fleet: tuple[HostRecord, ...] = ()
    if of_job:
        fleet = FleetMemory(engine, visibility).records(
            since=since, before=before, without=incident_ids
        )
    shorter = [d for d in (SHORT_DAYS,) if d < days]
    return Earlier(
        asked_at=before,
        seen=tuple(
            AlertCount(
                days=d,
                times=_occurrence_count(memory, alert, first, before - timedelta(days=d), before),
            )
            for d in [*shorter, max(1, round(days))]
        ),
        recalled=tuple(
            Recalled(
                why=why,
                investigation=e.model_copy(
                    update={"case": None, "judged": _judged(judged.get(e.id))}
                ),
            )
            for why, e in matches.values()
        ),
        record=labels.record(but=investigation.id),
        fleet=fleet,
    )


def _occurrence_count(
    memory: Memory,
    alert: Alert,
    first: EarlierInvestigation | None,
    since: datetime,
    before: datetime,
) -> int:
    """How often the alert was answered then, but for this very incident."""
    includes_first = first is not None and since <= first.at < before
    return memory.count_answers(alert, since=since, before=before) - includes_first


def recall_into_case(
    engine: Engine,
    cases: CaseStore,
    investigation: StoredInvestigation,
    alert: Alert,
    *,
    days: float,
    apart: bool = False,
    askable: Collection[str] | None = None,
) -> str:
    """Write what is recalled into the case; says what it was, in a few words."""
    try:
        scope = cases.get(investigation.id, "scope.json")
        of_job = scope is not None and Scope.model_validate_json(scope).job is not None
        earlier = recall(
            engine,
            investigation,
            alert,
            days=days,
            apart=apart,
            askable=askable,
            of_job=of_job,
        )
        if earlier.recalled or earlier.record or earlier.fleet:
            cases.put(investigation.id, EARLIER_FILE, json_bytes(earlier))
    # The edge of memory: an incident is answered without it, too.
    except Exception as error:  # noqa: BLE001
        log.warning("cannot read memory for %s: %s", investigation.id, type(error).__name__)
        return f"earlier investigations could not be looked up: {type(error).__name__}"
    count = len(earlier.recalled)
    return f"{count} earlier investigation{'' if count == 1 else 's'} recalled"


def keep_in_memory(
    engine: Engine, cases: CaseStore, investigation: StoredInvestigation, headline: str
) -> None:
    """Remember the answer that is in the case; a further one is another look at an incident
    that is remembered."""
    try:
        if FollowUps(engine).parent(investigation.id) is not None:
            return
        findings, scope = (
            cases.get(investigation.id, name) for name in ("findings.json", "scope.json")
        )
        if findings is not None and scope is not None:
            diagnosis, case_scope = (
                Diagnosis.model_validate_json(findings),
                Scope.model_validate_json(scope),
            )
            case = f"{cases.location}/{investigation.id}"
            remember = to_remember(investigation, case_scope, diagnosis, headline, case)
            Memory(engine).remember(remember, investigation.alert)
            if case_scope.job is not None:
                # Remember the machines of the job, and which of them the answer blames.
                # As in `to_remember`: what names the faults comes with the analyzers.
                from faultline.analysis.training.fleet_parts import blamed_parts, hosts_of_job

                metrics = cases.get(investigation.id, "metrics.parquet")
                FleetMemory(engine).remember(
                    investigation.id,
                    at=investigation.accepted_at,
                    job=case_scope.job or "",
                    hosts=hosts_of_job(case_scope, diagnosis, metrics),
                    blamed=blamed_parts(diagnosis, case_scope),
                )
    except Exception as error:  # noqa: BLE001  the edge of memory: the answer was given
        log.warning("cannot remember %s: %s", investigation.id, type(error).__name__)


def to_remember(
    investigation: StoredInvestigation, scope: Scope, diagnosis: Diagnosis, headline: str, case: str
) -> EarlierInvestigation:
    """An answer as memory keeps it; `case` is where its folder lies."""
    # The causes' kinds of trouble come from the analyzers; only the worker pays for loading them.
    from faultline.analysis.ranking.hypotheses import causes_to_remember

    alert, causes = investigation.alert, causes_to_remember(diagnosis)
    services = [alert.service or "", *scope.services, *(c.subject for c in causes)]
    return EarlierInvestigation(
        id=investigation.id,
        at=investigation.accepted_at,
        fingerprint=alert.fingerprint,
        title=_bounded_text(alert.title),
        services=tuple(dict.fromkeys(_bounded_text(s) for s in services if s))[:MAX_SERVICES],
        system=_bounded_text(alert.system) if alert.system else None,
        verdict=diagnosis.verdict.value,
        headline=_bounded_text(headline),
        causes=tuple(_bounded_cause(c) for c in causes),
        case=case,
    )


def _judged(label: AnswerLabel | None) -> Judged | None:
    return Judged(right=label.right, cause=label.cause) if label else None


def _bounded_text(text: str) -> str:
    return storable(text, MAX_CHARACTERS)


def _bounded_cause(cause: EarlierCause) -> EarlierCause:
    texts = {"subject": _bounded_text(cause.subject), "summary": _bounded_text(cause.summary)}
    return cause.model_copy(
        update={**texts, "change": _bounded_text(cause.change) if cause.change else None}
    )
