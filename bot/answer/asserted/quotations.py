"""Other people's words in a claim: a line of a source from its beginning, found by the words that a
model gives of it, and never cut so that its meaning turns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from faultline.analysis.kinds.finding_details import ChangeDetails, LineDetails, change_named
from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT, LOG_VANISHED
from faultline.analysis.phrasing.statement import Part, Phrase, name, say
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Assertion, Claim, Finding, Section
from faultline.analysis.wording.names import change_name
from faultline.bot.answer.asserted.ground import ALERT, Ground, Refused
from faultline.bot.answer.asserted.measurements import cited_finding
from faultline.bot.answer.writer.plain_text import clipped, neutral, quotable, rendered_part
from faultline.bot.answer.writer.story import change_called

SOURCES = ("quote", "example", "template", "title", "line", "operation")
"""Details of findings that hold other people's words, the fullest first."""
LEAST = 3
"""Letters of a quotation; fewer are found anywhere."""
STEM = 4
"""Letters that two words for one thing share."""
SHOWN = 240
"""Characters of a line that are shown. What stands behind them cannot be quoted: cut at both ends a
line may say the opposite."""
_CUT = re.compile(r"…|\.\.\.|<\*>")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[\w.-]+")
_UNSEEN = re.compile(r"[\u0334-\u0338\u200b-\u200f\u2060-\u2064\ufeff\u00ad]")
"""Strokes through letters, and what has no width: with them a word reads as another."""
_SIDES = {"added": "adds", "removed": "removes", "unchanged": "leaves"}


def quotes(assertion: Assertion, ground: Ground) -> Phrase:
    """The line with these words in it, and whose it is. Raises Refused."""
    if assertion.findings[0] == ALERT:
        line = _line_with(assertion.quote, [ground.alert.title, ground.alert.summary or ""])
        return say("the alert says {line}", line=_quoted(line, ""))
    finding = cited_finding(assertion, ground)
    # Lines that vanished keep an example, which would read as if it was written now.
    gone = finding.numbers.get("lines", finding.numbers.get("count", 1.0)) <= 0
    if finding.kind == LOG_VANISHED.name or gone:
        raise Refused(f"{finding.id} is about lines that were not written: use `shows`")
    line = _line_with(assertion.quote, list(quotable_texts(finding)))
    return say("{whose} {line}", whose=_whose(finding, ground), line=_quoted(line, finding.id))


def no_data_about(assertion: Assertion, ground: Ground) -> Phrase:
    """A word of the question that stands nowhere in the data."""
    requested_neutral = neutral(assertion.quote, 60).strip(" \"'“”?.")
    if len(requested_neutral) < LEAST or not _WORD.fullmatch(requested_neutral):
        raise Refused("no_data_about takes one word of the question")
    if not re.search(
        rf"(?<!\w){re.escape(requested_neutral.casefold())}(?!\w)", ground.question.casefold()
    ):
        raise Refused("the question does not hold this word")
    # "locking" and "locks" are near enough to be meant.
    if requested_neutral.casefold()[:STEM] in ground.written:
        raise Refused("the data may speak of it")
    return say("nothing in the data is called {it}", it=_quoted(requested_neutral, ""))


def quotable_texts(finding: Finding) -> Iterator[str]:
    """Every foreign line of a finding that may be quoted, with a mark where others are left out."""
    written = finding.details.written()
    for source in SOURCES:
        text = written.get(source)
        if isinstance(text, str) and text.strip():
            first, *rest = text.strip().split("\n")
            yield f"{first} …" if rest else first


def _whose(finding: Finding, ground: Ground) -> Phrase:
    who, written = name(finding.subject), finding.details.written()
    if ChangeDetails.of(finding) is not None:
        called = change_called(finding, with_service=True)
        return say("the title of {it}{status} is", it=called, status=_status(finding, ground))
    about, change = str(written.get("about") or ""), str(written.get("change") or "")
    if change:
        change_finding = next(
            (f for f in ground.findings.values() if change_named(f) == change), None
        )
        status = _status(change_finding, ground) if change_finding is not None else ""
        called = say("change {id} of {who}{status}", id=change_name(change), who=who, status=status)
        side = _SIDES.get(str(written.get("side")))
        if side is None:
            return say("the title of {it} is", it=called)
        where = neutral(str(written.get("file") or "a file"), 80)
        return say("{it} {side} in {file}:", it=called, side=side, file=where)
    if "log" in about or (LineDetails.of(finding) is not None and not about):
        return say("{who} logs", who=who)
    return say("of {who} it says", who=who)


def _status(change: Finding, ground: Ground) -> str:
    """What code thinks of a change that it does not blame."""
    if change.kind == CHANGE_RULED_OUT.name:
        return ", which was ruled out,"
    return ", another change," if ground.blames and not ground.is_blamed_change(change) else ""


def _line_with(words: str, texts: list[str]) -> str:
    """The shown part of the line that holds the words. Raises Refused."""
    # Data shows "…" for what varies, or where it was cut.
    pieces = [piece for part in _CUT.split(words) if (piece := _plain(part))]
    if sum(map(len, pieces)) < LEAST:
        raise Refused("a quotation needs words of the source in `quote`")
    pattern = re.compile(".*?".join(re.escape(piece) for piece in pieces))
    for text in texts:
        shown = clipped(_SPACE.sub(" ", quotable(_UNSEEN.sub("", text))), SHOWN)
        if pattern.search(shown.casefold()):
            return shown
    raise Refused("the beginning of the source does not hold these words")


def _plain(text: str) -> str:
    return _SPACE.sub(" ", quotable(_UNSEEN.sub("", text))).strip(" …").casefold()


def _quoted(text: str, finding: str) -> Part:
    # A quotation mark in the line would end the quotation early.
    inside = text.replace("“", '"').replace("”", '"')
    return Part(f"“{inside}”", "quote", finding)


# What a model says in its own words: it is labelled as that, never leads an answer, and can neither
# notify anybody nor render.

CLAIM_LIMIT = 700
INFERENCE_LIMIT = 300
MOST_REASONS = 6
# A digit behind a letter belongs to a name, but F3 would look like a cited finding.
_FIGURE = re.compile(r"(?<![a-z0-9])\d|\b(?:f|l)\d")


def inference(text: str, because: Sequence[str], ground: Ground) -> Claim:
    """What the model concludes from findings. Raises Refused."""
    ids = _reasons(because, ground)
    return Claim(text=_without_figures(text, ground), findings=ids, section=Section.INFERRED)


def question_to_a_person(text: str, ground: Ground) -> Claim:
    """What the model would ask somebody who knows. Raises Refused."""
    phrase = f"Question: {_without_figures(text, ground)}"
    return Claim(text=phrase, findings=(), section=Section.INFERRED)


def verdict_words(text: str, ground: Ground) -> str:
    """Why a model says what it says. Raises Refused."""
    return _without_figures(text, ground)


def stored_inference(claim: Claim, ground: Ground) -> Claim:
    """One that a stored report holds, with the reasons that still exist. Raises Refused."""
    harmless(claim.text)
    ids = tuple(finding for finding in claim.findings if finding in ground.findings)
    if claim.findings and not ids:
        raise Refused("none of its reasons is among the findings any more")
    return claim.model_copy(update={"findings": ids, "asserted": ()})


def harmless(text: str, limit: int = CLAIM_LIMIT, links: Collection[str] = ()) -> str:
    """The text. Raises Refused where it does what none may do, whoever wrote it."""
    if not text.strip() or len(text) > limit:
        raise Refused(f"it is empty, or longer than {limit} characters")
    if rendered := rendered_part(text, links):
        raise Refused(f"it holds {rendered}")
    if masked(text) != text:
        raise Refused("it holds a secret")
    return text


def _without_figures(text: str, ground: Ground) -> str:
    """Raises Refused where it could be taken for evidence: figures are code's alone."""
    rest = harmless(text, INFERENCE_LIMIT).casefold()
    # The longest first: a shorter name may be part of a longer one.
    for word in sorted(ground.named_in_words, key=len, reverse=True):
        rest = rest.replace(word, " ")
    if _FIGURE.search(rest):
        raise Refused("it holds a figure: cite the finding that has it")
    return clipped(neutral(text), INFERENCE_LIMIT)


def _reasons(because: Sequence[str], ground: Ground) -> tuple[str, ...]:
    # Models also write ids as [F3] or (F3).
    ids = tuple(dict.fromkeys(reason.strip("[]() ") for reason in because))[:MOST_REASONS]
    if not ids:
        raise Refused("it gives no finding as its reason")
    for finding_id in ids:
        ground.finding(finding_id)
    return ids
