"""The closed list of what a claim may say, each with its check and its words.

A relation takes subjects (names of the case), findings (ids) or a quotation, and raises Refused
where they do not bear it out. Names, figures, times and directions are put in here, from the
findings; a model writes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.phrasing.statement import Part, Phrase, joined
from faultline.analysis.vocabulary import Assertion, Claim, Section
from faultline.bot.answer.asserted import causes, measurements
from faultline.bot.answer.asserted.causes import is_symptom
from faultline.bot.answer.asserted.ground import Ground, Refused, cited
from faultline.bot.answer.asserted.quotations import harmless, no_data_about, quotes
from faultline.bot.answer.writer.headline import claim_of
from faultline.bot.answer.writer.plain_text import neutral

JOINTS = ("and", "while", "but")
SPOKEN = {"but": "while"}
"""A contrast is said without its weight: "but" may clear somebody."""
PLAIN = ("shows", "rose", "fell")
"""Relations that say no more than a finding does."""
MOST_PARTS = 3
"""Assertions of one sentence."""
MOST_NAMED = 6
"""Subjects or findings of one assertion."""


@dataclass(frozen=True)
class Relation:
    """One thing that can be said. `takes` tells a model what it needs and when it holds."""

    word: Callable[[Assertion, Ground], Phrase]
    takes: str
    findings: tuple[int, int] = (0, 0)
    """The least and the most of them."""
    subjects: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """As a model gives it."""
        return self.word.__name__


SINGLE, TWO = (1, 1), (2, 2)
SOME = (1, MOST_NAMED)
_ALL = (
    Relation(causes.shows, "a finding: what it says, without its time", SINGLE),
    Relation(measurements.rose, "a finding that went up: the same", SINGLE),
    Relation(measurements.fell, "a finding that went down: the same", SINGLE),
    Relation(measurements.began, "a finding with an onset: also since when", SINGLE),
    Relation(
        measurements.began_before, "two, the second may be `alert`: in this order; says both", TWO
    ),
    Relation(measurements.began_with, "two that began together; says both", TWO),
    Relation(causes.explained_by, "what is felt, then what the first cause did; says both", TWO),
    Relation(causes.changed, "a finding about a change: its title and time", SINGLE),
    Relation(causes.ruled_out, "a finding about a change that is no cause", SINGLE),
    Relation(causes.against, "a finding against the first cause", SINGLE),
    Relation(causes.candidate, "a subject of the causes below the first", subjects=SINGLE),
    Relation(causes.calls, "two subjects: the first calls the second", subjects=TWO),
    Relation(measurements.affected, "subjects that the impact names", subjects=SOME),
    Relation(
        measurements.unaffected,
        "subjects that were measured and are fine, or a finding that says so of a signal",
        (0, 1),
        (0, MOST_NAMED),
    ),
    Relation(
        quotes, "a finding or `alert`, and in `quote` words of its line, diff or title", SINGLE
    ),
    Relation(measurements.missing, "in `quote` the id of what is missing: M1, G2"),
    Relation(no_data_about, "in `quote` a word of the question that names nothing in the data"),
)
RELATIONS: Mapping[str, Relation] = {relation.name: relation for relation in _ALL}


def worded(
    assertions: Sequence[Assertion], ground: Ground, section: Section = Section.WHY
) -> Claim:
    """One sentence. Raises Refused where any part of it does not hold."""
    if not assertions:
        raise Refused("it says nothing")
    if len(assertions) > MOST_PARTS:
        raise Refused(f"it says more than {MOST_PARTS} things; make two claims of it")
    _belong_together(assertions, ground)
    parts: list[Phrase] = []
    for assertion in assertions:
        relation = RELATIONS.get(assertion.relation)
        if relation is None:
            raise Refused(f"there is no relation {neutral(assertion.relation, 40)}")
        _counted(assertion.findings, relation.findings, "finding", relation)
        _counted(assertion.subjects, relation.subjects, "subject", relation)
        word, joint = relation.word(assertion, ground), assertion.joint or "and"
        if joint not in JOINTS:
            raise Refused(f"parts are joined by {', '.join(JOINTS)} only")
        if _is_repeated(assertion, assertions) or str(word) in map(str, parts):
            continue
        if parts:
            parts.append(Phrase((Part(f", {SPOKEN.get(joint, joint)} "),)))
        parts.append(word)
    claim = claim_of(joined(parts, ""), section, cited(assertions))
    # Check the whole sentence: the titles and lines quoted in it are foreign text.
    harmless(claim.text)
    return claim.model_copy(update={"asserted": tuple(assertions)})


def _belong_together(assertions: Sequence[Assertion], ground: Ground) -> None:
    """Raises Refused where facts of services that have nothing to do with each other are put into
    one sentence, which suggests that they have."""
    plain = [assertion for assertion in assertions if assertion.relation in PLAIN]
    findings = [
        ground.findings[finding_id] for finding_id in cited(plain) if finding_id in ground.findings
    ]
    # That a service is slow or fails is the incident, whoever is counted among the affected.
    calm = [finding.id for finding in findings if finding.details.bad is False]
    if calm and len(calm) < len(assertions):
        raise Refused(f"{calm[0]} is no trouble: make it its own claim")
    strangers = {
        finding.subject
        for finding in findings
        # A rank counts with its job: "job/rank 2".
        if not {finding.subject, finding.subject.split("/")[0]} & ground.involved
        and not is_symptom(finding)
    }
    if strangers and {finding.subject for finding in findings} & ground.involved:
        raise Refused(f"{neutral(min(strangers), 60)} has no part in this: make it its own claim")


def _is_repeated(assertion: Assertion, assertions: Sequence[Assertion]) -> bool:
    """Whether another part says it too: "it rose" beside "it rose before that"."""
    if assertion.relation not in PLAIN:
        return False
    other_assertions = [other for other in assertions if other is not assertion]
    before = assertions[: list(assertions).index(assertion)]
    # Of two plain parts the first one stays.
    restatements = [
        other for other in other_assertions if other.relation not in PLAIN or other in before
    ]
    return any(set(assertion.findings) <= set(other.findings) for other in restatements)


def _counted(arguments: Sequence[str], bounds: tuple[int, int], noun: str, of: Relation) -> None:
    least, most = bounds
    if len(arguments) < least:
        raise Refused(f"{of.name} takes {of.takes}")
    # A subject may be named beside its findings where the relation needs none: it is checked there.
    if len(arguments) > most and not (noun == "subject" and most == 0):
        raise Refused(f"{of.name} takes {of.takes}, not {len(arguments)} {noun}s")


def described(relations: Iterable[Relation] = RELATIONS.values()) -> str:
    """The list as the prompt has it, one line each."""
    return "\n".join(f"- `{relation.name}`: {relation.takes}" for relation in relations)
