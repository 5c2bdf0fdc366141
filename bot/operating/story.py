"""The story of one investigation in its order, or of an alert that never became one: by any name
that it goes by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, String, cast, func, or_, select
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.operating.engine_rows import ACTIVE, Step, Workflow
from faultline.bot.operating.inspection import CheckResult, Inspection, State, lasting, when
from faultline.bot.operating.work_checks import next_try, usual_length, where_it_stands
from faultline.bot.policy.values import ENDED
from faultline.bot.queue.engine_database import WORKFLOW_REPLY
from faultline.bot.store.connections import storable
from faultline.bot.store.people_tables import FollowUpRow, QuestionRow
from faultline.bot.store.store import NO_POST, forgotten_key
from faultline.bot.store.tables import (
    DeliveryRow,
    GroupedAlertRow,
    InvestigationRow,
    MuteRow,
    PostRow,
    ProgressRow,
    SuppressedAlertRow,
)
from faultline.connectors.shared.rows.named_ids import SEPARATOR

MOST_LINES = 200
TITLE = 120
MAX_NAME = 300


def story(inspection: Inspection, name: str) -> list[CheckResult]:
    """Everything that is known under a name: an investigation's id, or that of a delivery, an alert
    or an incident."""
    # PostgreSQL refuses text with a NUL, and the name comes from the command line.
    name = storable(name.strip(), MAX_NAME)
    with inspection.read() as session:
        row = session.get(InvestigationRow, name)
        if row is not None:
            return list(_of_investigation(inspection, session, row))
        stories = list(_by_other_names(session, name))
    if stories:
        return stories
    # A store that was restored from a backup lacks what the engine still knows.
    ghosts = inspection.rows.of(name) if inspection.rows else []
    if ghosts:
        phrase = (
            f"the store knows no {name}, and the engine has {counted(len(ghosts), 'workflow')} "
            f"of that name"
        )
        return [
            CheckResult(
                "wrong",
                "lost",
                phrase,
                f"`faultline delete {name}` removes them; was the store restored from a backup?",
            )
        ]
    phrase = (
        f"nothing is known of {plain(name, 80)}: no investigation, delivery, alert, incident "
        f"or question has that name"
    )
    return [
        CheckResult(
            "wrong",
            "unknown",
            phrase,
            "`faultline doctor` without a name looks at the whole installation",
        )
    ]


def _of_investigation(
    inspection: Inspection, session: Session, row: InvestigationRow
) -> Iterator[CheckResult]:
    alert = Alert.model_validate(row.alert)
    team = f", for {row.team}" if row.team else ""
    yield CheckResult(
        "ok",
        "accepted",
        f"{when(row.accepted_at)}: {plain(alert.title, TITLE)} (from {plain(alert.source)}{team})",
    )
    yield from _came_with(session, row)
    workflows = inspection.rows.of(row.id) if inspection.rows else []
    active = [w for w in workflows if w.active]
    if row.dispatched_at is None:
        yield _waits(inspection, session, row)
    else:
        yield CheckResult(
            "ok",
            "queued",
            f"{when(row.dispatched_at)}: given to the engine after "
            f"{lasting(row.dispatched_at - row.accepted_at)}",
        )
    for workflow in workflows:
        yield from _workflow(inspection, workflow)
    query = (
        select(ProgressRow)
        .where(ProgressRow.investigation_id == row.id)
        .order_by(ProgressRow.id)
        .limit(MOST_LINES)
    )
    for line in session.scalars(query):
        yield CheckResult("ok", "said", f"{when(line.at)} {line.stage}: {line.text}")
    yield from _post_checks(session, row)
    yield from _end(inspection, row, active)


def _came_with(session: Session, row: InvestigationRow) -> Iterator[CheckResult]:
    follow_up = session.get(FollowUpRow, row.id)
    if follow_up is not None:
        who = plain(follow_up.who) or "somebody"
        yield CheckResult(
            "ok",
            "because",
            f"asked for by {who}, starting from {follow_up.parent_id}",
        )
    if row.repeats:
        yield CheckResult(
            "ok", "repeats", f"the same alert came {row.repeats} more times and joined it"
        )
    if row.members:
        yield CheckResult(
            "ok", "grouped", f"{counted(row.members, 'other alert')} of the same incident joined it"
        )
    if row.surplus:
        yield CheckResult(
            "note",
            "surplus",
            f"{counted(row.surplus, 'alert')} after it were not investigated: over the channel's "
            f"rate",
        )
    if row.quiet_until is not None:
        phrase = (
            "told in the digest"
            if row.digested_at
            else f"its channel is quiet until {when(row.quiet_until)}, and gets a digest then"
        )
        yield CheckResult("ok", "quiet", phrase)


def _waits(inspection: Inspection, session: Session, row: InvestigationRow) -> CheckResult:
    other = InvestigationRow
    first = (other.priority == row.priority) & (other.accepted_at < row.accepted_at)
    before = select(func.count()).where(
        other.dispatched_at.is_(None), (other.priority < row.priority) | first
    )
    running = session.scalar(select(func.count()).where(other.status == "running")) or 0
    ahead = f"{session.scalar(before) or 0} more urgent or older"
    phrase = (
        f"behind {ahead}, with {running} running, for {lasting(inspection.now - row.accepted_at)}"
    )
    if inspection.executors().count:
        return CheckResult("ok", "waits", phrase)
    return CheckResult(
        "wrong",
        "waits",
        f"{phrase}; no worker is alive",
        "start `faultline serve` or `faultline worker`",
    )


def _workflow(inspection: Inspection, workflow: Workflow) -> Iterator[CheckResult]:
    label = "reply" if workflow.name == WORKFLOW_REPLY else "run"
    by = f" by {workflow.executor}" if workflow.executor else ""
    begun = (
        f"begun {when(workflow.started_at)}{by}"
        if workflow.started_at
        else f"queued {when(workflow.created_at)}"
    )
    failed = workflow.status not in (*ACTIVE, "SUCCESS")
    state: State = "wrong" if failed else "ok"
    yield CheckResult(
        state, label, f"{workflow.id}: {begun}, {workflow.status.lower().replace('_', ' ')}"
    )
    steps = inspection.rows.steps(workflow.id) if inspection.rows else []
    # A reply may be tried for most of a day, and its last steps say enough.
    for step in steps[:MOST_LINES] if label == "run" else steps[-3:]:
        # DBOS records its own calls, such as a sleep, as steps.
        if not step.name.startswith("DBOS."):
            yield _step(step)


def _step(step: Step) -> CheckResult:
    took = (
        f" took {lasting(step.completed_at - step.started_at)}"
        if step.started_at and step.completed_at
        else ""
    )
    at = f" at {when(step.completed_at)}" if step.completed_at else ""
    phrase = f"{step.name}{took}, {'failed' if step.failed else 'done'}{at}"
    return CheckResult("note" if step.failed else "ok", "step", phrase)


def _post_checks(session: Session, row: InvestigationRow) -> Iterator[CheckResult]:
    for post in session.scalars(
        select(PostRow).where(PostRow.investigation_id == row.id).order_by(PostRow.attempted_at)
    ):
        where = post.key.removeprefix(f"{row.id}:")
        if post.key == forgotten_key(row.id):
            yield CheckResult(
                "ok",
                "requeued",
                f"{when(post.attempted_at)}: its posts are looked for at vendors first",
            )
            continue
        # Such a claim only notes that something is done.
        if post.ref == NO_POST:
            continue
        if post.ref is not None:
            yield CheckResult(
                "ok",
                "posted",
                f"{where}: {post.ref}" + (f" at {when(post.posted_at)}" if post.posted_at else ""),
            )
        else:
            phrase = (
                f"{where}: claimed at {when(post.attempted_at)} by {post.owner}, and not recorded"
            )
            yield CheckResult(
                "note", "posted", phrase, "the next try looks for it at the vendor first"
            )


def _end(
    inspection: Inspection, row: InvestigationRow, active: Sequence[Workflow]
) -> Iterator[CheckResult]:
    """Where it stands, and what happens next."""
    if row.status in ENDED:
        ended = f"{row.status} at {when(row.finished_at)}" if row.finished_at else row.status
        took = (
            f", {lasting(row.finished_at - row.accepted_at)} after the alert"
            if row.finished_at
            else ""
        )
        yield CheckResult("ok", "ended", f"{ended}{took}: {plain(row.headline or '', 300)}")
    elif row.dispatched_at is not None:
        yield _stands(inspection, row, active)
    if row.wants_run and row.status in ENDED:
        yield CheckResult("ok", "next", "it is run again: its alerts grew beyond what it looked at")
    for reply in (w for w in active if w.name == WORKFLOW_REPLY):
        yield _next_reply(inspection, reply)


def _stands(
    inspection: Inspection, row: InvestigationRow, active: Sequence[Workflow]
) -> CheckResult:
    stands = where_it_stands(inspection, row.id, active)
    begun = row.started_at or row.accepted_at
    at_work = any(
        w.status == "PENDING" and w.executor and inspection.executors().lives(w.executor)
        for w in active
    )
    # A queued run is in order as long as a worker lives that can take it.
    waits = any(w.status != "PENDING" for w in active) and inspection.executors().count > 0
    runs, usually = inspection.now - begun, usual_length(inspection)
    well = (at_work or waits) and runs <= usually
    usual = f" It has run for {lasting(runs)}; {lasting(usually)} is usual."
    return CheckResult("ok" if well else "wrong", "now", stands.text + "." + usual, stands.todo)


def _next_reply(inspection: Inspection, reply: Workflow) -> CheckResult:
    target = (reply.queue or "").removeprefix("replies-")
    lost = inspection.executors().lost.get(reply.executor or "")
    if lost and reply.status == "PENDING":
        phrase = f"its reply to {target or 'a reply target'} waits: {lost.summary}"
        return CheckResult("wrong", "next", phrase, "another worker takes it over within seconds")
    tries, again = next_try(inspection.rows.steps(reply.id)) if inspection.rows else (0, None)
    if not tries:
        return CheckResult("ok", "next", f"it is being posted to {target or 'a reply target'}")
    phrase = f"{target} was tried {tries} times" + (
        f", and is tried again at {when(again)}" if again else ""
    )
    return CheckResult(
        "wrong",
        "next",
        phrase,
        f"is {target} down, or its token refused? `faultline check` asks it",
    )


def _of_incident(name: str) -> ColumnElement[bool]:
    """Whether it is an investigation's PagerDuty incident, with or without the account's name."""
    pagerduty_incident = InvestigationRow.pagerduty_incident
    return or_(
        pagerduty_incident == name,
        pagerduty_incident.endswith(f"{SEPARATOR}{name}", autoescape=True),
    )


def _answered_at(address: str) -> ColumnElement[bool]:
    """Whether it is an investigation's address at a target whose addresses have no column."""
    # Both databases keep JSON as text that holds a value between quotes.
    quoted = json.dumps(address)
    string = cast(InvestigationRow.reply_addresses, String)
    return string.contains(f": {quoted}", autoescape=True)


def _by_other_names(session: Session, name: str) -> Iterator[CheckResult]:
    """Alerts that joined, were held back or are duplicates, and whatever else leads to an
    investigation."""
    # Two sources may use the same delivery id.
    for delivery in session.scalars(
        select(DeliveryRow).where(DeliveryRow.delivery_id == name).limit(5)
    ):
        phrase = f"{when(delivery.received_at)}: a delivery of {delivery.source}"
        to = delivery.investigation_id
        text = (
            f"which is, or joined, {to}"
            if to
            else "of which no investigation came: a resolution, or held back"
        )
        yield CheckResult(
            "ok",
            "delivery",
            f"{phrase}, {text}; the same again is a duplicate",
            f"`faultline doctor {to}`" if to else "",
        )
    for member in session.scalars(
        select(GroupedAlertRow)
        .where(GroupedAlertRow.fingerprint == name)
        .order_by(GroupedAlertRow.id.desc())
        .limit(5)
    ):
        phrase = f"{when(member.at)}: it joined {member.investigation_id}: {plain(member.why, 200)}"
        yield CheckResult("ok", "grouped", phrase, f"`faultline doctor {member.investigation_id}`")
    for suppression in session.scalars(
        select(SuppressedAlertRow).where(SuppressedAlertRow.fingerprint == name).limit(5)
    ):
        came = (
            f"{suppression.count} times from {when(suppression.first_at)} to "
            f"{when(suppression.last_at)}"
        )
        phrase = f"not investigated, {came}: {suppression.kind}, {plain(suppression.why, 200)}"
        yield CheckResult("ok", suppression.kind, phrase)
    for mute in session.scalars(
        select(MuteRow).where(MuteRow.fingerprint == name).order_by(MuteRow.id.desc()).limit(3)
    ):
        ended = f"ended {when(mute.ended_at)}" if mute.ended_at else f"until {when(mute.until)}"
        yield CheckResult(
            "ok",
            "mute",
            f"muted {when(mute.at)}, {ended}, by {plain(mute.who) or 'somebody'}: "
            f"{plain(mute.reason, 200)}",
        )
    row = InvestigationRow
    query = select(row.id, row.accepted_at, row.status).where(
        or_(row.fingerprint == name, _of_incident(name), _answered_at(name))
    )
    for id_, at, status in session.execute(query.order_by(row.accepted_at.desc()).limit(5)):
        yield CheckResult(
            "ok",
            "alert",
            f"{when(at)}: investigated as {id_}, {status}",
            f"`faultline doctor {id_}`",
        )
    question = session.get(QuestionRow, name)
    if question is not None:
        about = f" about {question.investigation_id}" if question.investigation_id else ""
        yield CheckResult(
            "ok", "question", f"{when(question.asked_at)}: a question{about}, {question.status}"
        )
