"""The built-in writer: words a diagnosis without a model, deterministically.

Its sentences are made of statements (`faultline.analysis.phrasing`): each knows the findings that
it is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline.analysis.analyzers import finding_kind
from faultline.analysis.case.earlier import FLEET, KIND, RECORD
from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.kinds.finding_kinds import (
    ALERT_QUERY_GONE,
    ALERT_TRUE,
    SIGNAL_STOPPED,
)
from faultline.analysis.vocabulary import (
    Alert,
    Claim,
    Diagnosis,
    Finding,
    Gap,
    Report,
    Section,
    Verdict,
)
from faultline.bot.answer.writer import doubts
from faultline.bot.answer.writer import headline as first_sentence
from faultline.bot.answer.writer.evidence import why, without_repeats
from faultline.bot.answer.writer.happening import happening
from faultline.bot.answer.writer.headline import (
    finding_claim,
    with_called_names,
    without_the_only_place,
)
from faultline.bot.answer.writer.next_steps import next_steps
from faultline.bot.answer.writer.plain_text import quotable
from faultline.bot.answer.writer.story import Story, story_of

# What memory knows, in the report: earlier causes that were tested again, and how often such
# answers were right.


def is_memory(finding: Finding) -> bool:
    """Whether it says what memory knows, and is no evidence."""
    return finding_kind(finding.kind).is_memory


def memory_claims(diagnosis: Diagnosis) -> list[Claim]:
    """The machine that was to blame before, the first earlier cause, the record, then a second
    earlier cause; each cites the findings that show it again."""
    findings_by_id = {f.id: f for f in diagnosis.findings}
    earlier = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == KIND]
    record = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == RECORD]
    fleet = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == FLEET]
    return [*fleet, *earlier[:1], *record, *earlier[1:]]


def _claim(finding: Finding, findings: Mapping[str, Finding]) -> Claim:
    details = EarlierDetails.of(finding)
    ids = [i for i in details.shows_in if i in findings] if details else []
    cited = (finding.id, *ids)
    return Claim(text=quotable(finding.sentence), findings=cited, section=Section.EARLIER)


HEADLINE_LIMIT = first_sentence.HEADLINE_LIMIT
MAX_CLAIMS = 12
"""What a person reads at night."""
MOST_REMEMBERED = 3
"""Of what memory knows."""
SUPPORTING = 3


def word(diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap] = ()) -> Report:
    """The report of any diagnosis. Every sentence cites findings; what is missing is said by the
    diagnosis itself."""
    diagnosis = without_the_only_place(with_called_names(diagnosis))
    story = story_of(diagnosis, alert)
    headline = first_sentence.headline(story, diagnosis, alert)
    return Report(
        headline=headline,
        claims=tuple(_claims(story, diagnosis, alert, headline)),
        next_steps=tuple(next_steps(story, diagnosis)),
    )


def _claims(story: Story, diagnosis: Diagnosis, alert: Alert, headline: str) -> list[Claim]:
    claims = happening(story, diagnosis, alert, headline)
    if diagnosis.verdict is not Verdict.NO_ACTIVE_INCIDENT:
        shown = why(story, diagnosis, headline) or _observations(diagnosis)
        claims += without_repeats(shown, headline)
    claims += doubts.unsure(story, diagnosis)
    claims += doubts.checked(story, diagnosis)
    # Memory comes last, because it is no evidence: the limit cuts it first.
    return [*claims, *memory_claims(diagnosis)[:MOST_REMEMBERED]][:MAX_CLAIMS]


def _observations(diagnosis: Diagnosis) -> list[Claim]:
    """Where nothing is blamed, the clearest of what was seen."""
    # The headline and the step say all about a signal that stopped.
    excluded_kinds = (SIGNAL_STOPPED.name, ALERT_QUERY_GONE.name, ALERT_TRUE.name)
    findings = [
        finding
        for finding in diagnosis.findings
        if not is_memory(finding) and finding.kind not in excluded_kinds
    ]
    findings.sort(key=lambda finding: (-finding.strength, finding.id))
    return [finding_claim(finding) for finding in findings[:SUPPORTING]]
