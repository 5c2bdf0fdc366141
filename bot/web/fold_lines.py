"""The one line that a folded section shows: what a reader would learn from opening it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from faultline.analysis.vocabulary import Gap, Verdict
from faultline.analysis.wording.phrases import capitalised, counted, plain
from faultline.bot.answer.view import AnswerView
from faultline.bot.web.earlier_view import EarlierView
from faultline.bot.web.timeline import Timeline

LONGEST = 150
"""Characters: two lines on a phone, and one on a desktop."""


def timeline_line(timeline: Timeline) -> str:
    """What came first of that on which the answer rests."""
    decisive = (event for event in timeline.events if event.decisive)
    onsets = (event for event in timeline.events if event.kind == "onset")
    for event in (*islice(decisive, 1), *islice(onsets, 1)):
        return plain(f"{event.label}: {event.note}, {event.distance}", LONGEST)
    return "Only the alert itself"


def gaps_line(gaps: Sequence[Gap]) -> str:
    """The first, and how many more."""
    first = gaps[0]
    line = plain(f"{capitalised(first.kind)} from {first.source}: {first.reason}", LONGEST)
    return f"{line} (and {len(gaps) - 1} more)" if len(gaps) > 1 else line


def similar_line(earlier: EarlierView) -> str:
    """What memory says first."""
    return plain(earlier.findings[0].sentence, LONGEST)


def decided_line(answer: AnswerView) -> str:
    """How sure the answer is, and what it was chosen from."""
    count = len(answer.other_causes)
    if answer.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return "What alerts is inside its usual range, or back in it"
    if not answer.causes:
        return "No candidate was found"
    if answer.suspected_only:
        return f"{counted(count + 1, 'candidate')}, none of them established"
    if not count:
        return f"{answer.how_sure}; there was no other candidate"
    return f"{answer.how_sure}; {counted(count, 'other candidate')} weighed"
