"""Why: what shows the cause. Two to four lines about the culprit, the decisive one first, and none
of what the headline says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from faultline.analysis.analyzers import cause_kinds, fault_of, finding_kind, is_training
from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.kinds.fault_kinds import (
    CONNECTIONS,
    DEMAND,
    NETWORK,
    RESOURCE,
    RESTARTS,
)
from faultline.analysis.kinds.finding_details import (
    CallsIntoDetails,
    ChangeDetails,
    LogLineDetails,
    PlaceDetails,
    SignatureDetails,
)
from faultline.analysis.kinds.finding_kinds import (
    CHANGE_RULED_OUT,
    METRIC_SHIFT,
    PART_CONTRAST,
    PLACE_CONTRAST,
)
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.log_forms import message_of, witness
from faultline.analysis.phrasing.metric_forms import (
    counted_restarts,
    failing_share,
    moved,
    signal_text,
)
from faultline.analysis.phrasing.state_forms import is_down, state_of
from faultline.analysis.phrasing.statement import (
    Phrase,
    Tense,
    Voice,
    clock,
    quote,
    say,
)
from faultline.analysis.vocabulary import (
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Section,
    Verdict,
)
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import capitalised
from faultline.bot.answer.writer.doubts import more_calls_to
from faultline.bot.answer.writer.headline import claim_of, closed, findings_by_id
from faultline.bot.answer.writer.story import (
    Story,
    began,
    change_called,
    fails_mostly,
    is_out_of_step,
    is_small_rise,
    tells_nothing,
    title_of,
)

MOST_EVIDENCE = 4
_FOLLOWS_A_STATE = frozenset({RESOURCE.name, CONNECTIONS.name, RESTARTS.name})
TOTAL_TIME = "time spent on requests"
_QUOTATION = re.compile(r"“[^”]+”")
_FIGURE = re.compile(r"“[^”]+”|\b\d[\d.,:]*\d\b|\b\d\b")
_WORD = re.compile(r"[a-z]{4,}")
SHARED_WORDS = 3
"""Of at least four letters. Two are shared by chance: "pool" and "settings" stand in many
titles."""
TOGETHER_S = 1.0
"""Two times so near to each other are one."""


def why(story: Story, diagnosis: Diagnosis, headline: str = "") -> list[Claim]:
    """Evidence about the culprit, each line with its figures."""
    if story.cause is None or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    evidence = _evidence(story, diagnosis)[:MOST_EVIDENCE]
    onset = began(diagnosis)
    tense = Tense.OVER if diagnosis.verdict is Verdict.RECOVERED else Tense.NOW
    return [_shown(finding, story, onset, tense, headline) for finding in evidence]


def without_repeats(claims: Sequence[Claim], headline: str) -> list[Claim]:
    """The evidence without what the headline says in the same words; nothing where it says all."""
    fresh = []
    for claim in claims:
        text = claim.text.rstrip(".")
        if not _adds(text, headline):
            continue
        # A line that the headline quotes is not quoted again.
        for quoted in _QUOTATION.findall(text):
            if quoted in headline:
                text = text.replace(f"logs {quoted}", "logs such lines", 1)
        # A quotation is one piece, whatever stands in it.
        parts = [text] if "“" in text else text.split("; ")
        new = [part for part in parts if not _repeats_headline(part, headline)]
        if new:
            fresh_text = text if len(new) == len(parts) else capitalised("; ".join(new))
            fresh.append(claim.model_copy(update={"text": closed(fresh_text)}))
    return fresh


def _adds(text: str, headline: str) -> bool:
    """Whether it has a figure, a quotation or a word that the headline has not."""
    if any(match not in headline for match in _FIGURE.findall(text)):
        return True
    return bool(_words(text) - _words(headline))


def _repeats_headline(text: str, headline: str) -> bool:
    """Whether the headline says it, perhaps with "it" for the subject."""
    headline_text, words = headline.casefold(), text.casefold()
    subject, _, predicate = words.partition(" ")
    named = subject in headline_text and " " in predicate
    return words in headline_text or (named and predicate in headline_text)


def _evidence(story: Story, diagnosis: Diagnosis) -> list[Finding]:
    """The findings about the culprit: what is wrong with it, the change, then others that say
    something new."""
    if story.cause is None:
        return []
    evidence = [finding for finding in (story.mechanism, story.change) if finding is not None]
    evidence += _symptoms_there(story, diagnosis)
    topics = {_topic(finding) for finding in evidence}
    if story.effect is not None:
        topics.add(_topic(story.effect))
    for finding in _about_the_culprit(story, story.cause, diagnosis):
        if _topic(finding) not in topics:
            topics.add(_topic(finding))
            evidence.append(finding)
    lines = [finding for finding in evidence if LogLineDetails.of(finding) is not None]
    if story.mechanism is not None and any(_is_of_the_calls(line, story) for line in lines):
        # The caller's own words say more than that its calls fail.
        evidence.remove(story.mechanism)
    return evidence


def _about_the_culprit(story: Story, cause: Cause, diagnosis: Diagnosis) -> list[Finding]:
    """What is cited about the culprit, and what shows its calls from their other end: the most
    telling first."""
    findings = findings_by_id(cause.findings, diagnosis)
    findings += [finding for finding in diagnosis.findings if _is_of_the_calls(finding, story)]
    evidence = [finding for finding in findings if _is_evidence(finding, story)]
    return sorted(evidence, key=lambda finding: (_place(finding, story), -finding.strength))


def _symptoms_there(story: Story, diagnosis: Diagnosis) -> list[Finding]:
    """Of a place what its services show, one symptom of each."""
    place = PlaceDetails.of(story.mechanism) if story.mechanism is not None else None
    findings: dict[str, Finding] = {}
    for finding in diagnosis.findings if place is not None else ():
        fault = fault_of(finding)
        if finding.kind == METRIC_SHIFT.name and fault is not None and fault.is_symptom:
            findings.setdefault(finding.subject, finding)
    return (
        [findings[service] for service in place.services if service in findings]
        if place is not None
        else []
    )


def _place(finding: Finding, story: Story) -> int:
    """What comes first: that it is down, then its objects' states, then that it fails."""
    if is_down(finding):
        return 0
    # Put next the states of the culprit's objects, which its own state brings about.
    subject = story.cause.subject if story.cause is not None else None
    if finding.subject == subject and state_of(finding) is not None:
        return 1
    return 2 if fails_mostly(finding) else 3


def _is_evidence(finding: Finding, story: Story) -> bool:
    if is_small_rise(finding) or is_out_of_step(finding) or _is_of_little_use(finding, story):
        return False
    if tells_nothing(finding):
        return _speaks_of_the_change(finding, story)
    if finding_kind(finding.kind).is_memory:
        return False
    if finding.kind in (CHANGE_RULED_OUT.name, NEAR) or story.cause is None:
        return False
    about_culprit = finding.subject == story.cause.subject or _is_of_the_calls(finding, story)
    return about_culprit or finding_kind(finding.kind).name in _contrast_kinds()


@cache
def _contrast_kinds() -> frozenset[str]:
    """Kinds of findings that are evidence for a culprit although another subject is theirs."""
    return frozenset({PART_CONTRAST.name, PLACE_CONTRAST.name, *cause_kinds()})


def _is_of_the_calls(finding: Finding, story: Story) -> bool:
    """Whether it shows the mechanism's calls from their other end: a failing line of a caller that
    names the culprit, or the time in what is called more often."""
    mechanism, cause = story.mechanism, story.cause
    if mechanism is None or cause is None:
        return False
    calls = CallsIntoDetails.of(mechanism)
    if calls is not None and finding.subject in calls.callers:
        line = LogLineDetails.of(finding)
        return line is not None and line.is_error and cause.subject in line.example
    return more_calls_to(mechanism) == finding.subject


def _is_of_little_use(finding: Finding, story: Story) -> bool:
    """Whether another line says it better: a sum of times beside the latency; where an object's
    state says what is wrong, more connections or restarts of it."""
    fault = fault_of(finding)
    if fault is None or signal_text(finding) == TOTAL_TIME:
        return True
    if fault.name == NETWORK.name and story.effect is not None and failing_share(story.effect):
        # Some more milliseconds on the way make no request fail.
        return finding is not story.mechanism
    if story.mechanism is None or state_of(story.mechanism) is None:
        return False
    line = LogLineDetails.of(finding)
    # The connector's own line about a container's end says the same as its state.
    ended = line is not None and line.code is not None and "exit code" in line.example
    return ended or fault.name in _FOLLOWS_A_STATE


def _speaks_of_the_change(finding: Finding, story: Story) -> bool:
    """Whether a new line shares words with the title of the blamed change, such as "object store":
    then it shows the change at work."""
    line = LogLineDetails.of(finding)
    change = ChangeDetails.of(story.change) if story.change is not None else None
    if line is None or change is None or not change.title:
        return False
    named = set(_WORD.findall(finding.subject.casefold()))
    shared = _words(line.example) & _words(change.title)
    # The name of the service may stand in both by chance.
    return len(shared - named) >= SHARED_WORDS


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _topic(finding: Finding) -> tuple[str, str]:
    """Findings of one topic say the same in other numbers: the p90 and the p99 of one latency."""
    if finding.kind == DEMAND.name:
        return finding.subject, f"{METRIC_SHIFT.name} {SignalClass.TRAFFIC.value}"
    if finding.details.signal_class not in (None, SignalClass.OTHER.value):
        return finding.subject, f"{finding.kind} {finding.details.signal_class}"
    return finding.subject, f"{finding.kind} {finding.signal}"


def _shown(
    finding: Finding, story: Story, onset: datetime | None, tense: Tense, headline: str
) -> Claim:
    if story.change is not None and finding.id == story.change.id:
        return claim_of(_change(finding, onset), Section.WHY, (finding.id,))
    clause = statement(finding).clause(tense.of(finding))
    if story.mechanism is not None and finding.id == story.mechanism.id:
        clause = _beside_the_headline(finding, clause, headline)
    return claim_of(clause, Section.WHY, (finding.id,))


def _beside_the_headline(finding: Finding, clause: Phrase, headline: str) -> Phrase:
    """What the headline blames, with what it leaves out: the log line, the levels, since when."""
    line = LogLineDetails.of(finding) or SignatureDetails.of(finding)
    meaning = str(statement(finding).short()).partition(" ")[2].casefold()
    if line is not None and meaning in headline.casefold():
        quoted = str(quote(message_of(line.example), finding).text) in headline
        return witness(finding, quoted=quoted) or clause
    if finding.onset is None:
        return clause
    fault = fault_of(finding)
    if fault is not None and fault.name == RESTARTS.name:
        return counted_restarts(finding, finding.onset) or clause
    if finding.kind == METRIC_SHIFT.name:
        levels = moved(finding, Voice(finding.subject))
        is_other = finding.details.signal_class == SignalClass.OTHER.value
        if levels is not None and fault is not None and not (is_other or is_training(finding)):
            return say("{what} at {time} UTC", what=levels.clause(), time=clock(finding.onset))
    return clause


def _change(change: Finding, onset: datetime | None) -> Phrase:
    """The change with its title, and how long before the onset it came."""
    title = title_of(change)
    has_title = bool(title)
    named = has_title and subject_name(change.subject) in title
    called = change_called(change, with_service=not named, with_time=False)
    if has_title:
        called = say("{change}, {title},", change=called, title=quote(title, change))
    if change.onset is None:
        return called
    called = say("{change} went live at {time} UTC", change=called, time=clock(change.onset))
    if onset is None:
        return called
    # Measured from the onset that the answer shows: the change's own finding may stand beside
    # another signal's.
    before_s = (onset - change.onset).total_seconds()
    if abs(before_s) < TOGETHER_S:
        return say("{change}, within a second of the onset", change=called)
    size = amount(abs(before_s), SECONDS)
    side = "before" if before_s > 0 else "after"
    return say("{change}, {size} {side} the onset", change=called, size=size, side=side)
