"""What a model's report becomes: claims in code's words, its own conclusions in labelled sections,
offered steps in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.vocabulary import Alert, Diagnosis, Gap, Report, Section
from faultline.bot.answer.asserted.ground import Ground, chosen_steps, offered_steps
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.model.drafts import (
    MOST_INFERENCES,
    CheckedDraft,
    check_draft,
    read_draft,
)
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS, GAPS
from tests.bot.answer.writer.openai_server import says, serving
from tests.bot.investigation.model.cases import (
    added,
    claim,
    diagnosis_of,
    good_report,
    investigated,
    part,
)
from tests.bot.investigation.model.test_answering import ask
from tests.bot.investigation.model.test_investigating import DONE

DOUBT = {"text": "The deploy may have moved the address of payments.", "because": ["F2", "[F3]"]}


def said(draft: dict[str, Any], ground: Ground | None = None) -> CheckedDraft:
    """What stands of a draft about the hand-written diagnosis."""
    about = ground or Ground(DIAGNOSIS, ALERT, GAPS)
    return check_draft(read_draft(json.dumps(draft)), about, Redactor())


def about_hand_written(
    diagnosis: Diagnosis = DIAGNOSIS,
    alert: Alert = ALERT,
    gaps: tuple[Gap, ...] = GAPS,
    **draft: Any,
) -> Report:
    """The guarded report on a diagnosis, of a model that said this."""
    claims = draft.pop("claims", [claim("shows", "F1")])
    found = said({"claims": claims, **draft}, Ground(diagnosis, alert, gaps))
    report = Report(
        headline="x",
        claims=tuple(found.claims),
        next_steps=chosen_steps(draft.get("next_steps", ()), offered_steps(diagnosis, alert)),
        written_by="local-model",
    )
    return keep_supported(report, diagnosis, alert, gaps=gaps)


def sections(report: Report) -> list[Section]:
    return [one.section for one in report.claims]


def test_an_inference_is_labelled_as_the_models_with_its_reasons(case: Path) -> None:
    with serving(DONE, says(good_report(case, inferences=[DOUBT]))) as server:
        done = investigated(case, server)
    assert done.report.dropped == ()
    assert [claim.section for claim in added(done.report)] == [Section.WHY, Section.INFERRED]
    inferred = done.report.claims[-1]
    assert (inferred.text, inferred.findings) == (DOUBT["text"], ("F2", "F3"))
    assert inferred.asserted == ()


def test_an_inference_alone_leads_no_answer_and_brings_no_verdict(case: Path) -> None:
    guess = {"text": "All is fine and nothing was wrong at any time.", "because": ["F1"]}
    by_code = word(diagnosis_of(case), read_case(case).alert, ())
    with serving(DONE, says({"claims": [], "inferences": [guess]})) as server:
        done = investigated(case, server)
    assert done.report.headline == by_code.headline
    assert done.report.next_steps == by_code.next_steps
    assert sections(done.report) == [Section.WHY, Section.WHY, Section.INFERRED]
    assert [c.text for c in done.report.claims[:2]] == [
        c.text for c in by_code.claims if c.section is Section.WHY
    ]
    assert done.diagnosis == diagnosis_of(case)


@pytest.mark.parametrize(
    ("guess", "reason"),
    [
        ({"text": "It is slow.", "because": []}, "gives no finding as its reason"),
        ({"text": "It is slow.", "because": ["F77"]}, "there is no finding F77"),
        ({"text": "  ", "because": ["F1"]}, "it is empty"),
        ({"text": "so " * 120, "because": ["F1"]}, "longer than 300"),
        ({"text": "Tell <!here> of it.", "because": ["F1"]}, "it holds a mention"),
        ({"text": "Tell @channel of it.", "because": ["F1"]}, "it holds a mention"),
        ({"text": "See https://evil.example/x for it.", "because": ["F1"]}, "it holds a link"),
        ({"text": "It is *slow*.", "because": ["F1"]}, "it holds mark-up"),
        ({"text": "Try AKIAIOSFODNN7EXAMPLE.", "because": ["F1"]}, "it holds a secret"),
    ],
)
def test_an_inference_without_reasons_or_that_does_more_than_say_is_refused(
    guess: dict[str, Any], reason: str
) -> None:
    found = said({"claims": [], "inferences": [guess]})
    assert found.claims == []
    (why,) = found.refused
    assert why.startswith("inference 1: ")
    assert reason in why


def test_no_more_inferences_are_shown_than_were_asked_for() -> None:
    guesses = [{"text": f"It may be {n}.", "because": ["F1"]} for n in "abcdef"]
    assert len(said({"claims": [], "inferences": guesses}).claims) == MOST_INFERENCES == 3


def test_steps_are_the_offered_ones_in_the_models_order_with_codes_own_among_them() -> None:
    offered = offered_steps(DIAGNOSIS, ALERT)
    assert [one.id for one in offered] == ["N1", "N2"]
    for chosen, shown in (
        (["N1", "N2"], ["N1", "N2"]),
        (["N2"], ["N1", "N2"]),
        (["N2", "N1", "N2"], ["N1", "N2"]),
        (["N9", "Restart payments-db.", "<!channel>"], ["N1"]),
        ([], ["N1"]),
    ):
        report = about_hand_written(next_steps=chosen)
        by_id = {one.id: one.text for one in offered}
        assert [one.text for one in report.next_steps] == [by_id[one] for one in shown], chosen


def test_a_question_to_a_person_is_shown_as_the_models(case: Path) -> None:
    asked = "Did payments move to another address tonight?"
    with serving(DONE, says(good_report(case, question=asked))) as server:
        done = investigated(case, server)
    assert done.report.claims[-1].text == f"Question: {asked}"
    assert done.report.claims[-1].section is Section.INFERRED


def test_a_sentence_of_several_parts_stands_or_falls_as_one(case: Path) -> None:
    holds = {
        "parts": [
            part("began", "F1", subjects=["checkout"]),
            part("shows", "F2", joint="while"),
        ]
    }
    fails_in_part = {"parts": [part("shows", "F2"), part("fell", "F1", joint="but")]}
    with serving(DONE, says(good_report(case, holds, fails_in_part))) as server:
        done = investigated(case, server)
    joined = added(done.report)[1]
    assert ", while " in joined.text
    assert joined.findings == ("F1", "F2")
    assert len(added(done.report)) == 2
    assert done.report.dropped == ("claim 3 (shows F2; fell F1): F1 did not fall",)


def test_what_is_said_twice_stands_once_and_is_no_fault() -> None:
    found = said({"claims": [claim("rose", "F1"), claim("rose", "[F1]"), claim("shows", "F1")]})
    assert len(found.claims) == 1
    assert found.refused == []


@pytest.mark.parametrize(
    "claims",
    [
        [{"relation": "shows", "findings": ["F1"]}],
        [{"parts": [{"relation": "shows", "findings": [" [F1] "]}]}],
        [{"parts": [{"relation": "shows", "findings": ["F1"], "quote": None, "joint": None}]}],
        [3, {"parts": "x"}, {"text": "It is slow."}, claim("shows", "F1"), None],
    ],
)
def test_a_draft_is_read_leniently(claims: list[Any]) -> None:
    found = said({"claims": claims})
    assert [one.text for one in found.claims] == [
        "checkoutservice is 18x slower (p99 214 ms → 3.8 s)."
    ]
    assert found.refused == []


def test_what_a_model_infers_in_an_answer_is_labelled_too(case: Path) -> None:
    with serving(DONE, says({"claims": [claim("shows", "F1")], "inferences": [DOUBT]})) as server:
        answered = ask(case, server, "what do you think?")
    assert [one.section for one in answered.claims] == [Section.WHY, Section.INFERRED]


def test_a_word_of_the_question_that_nothing_is_called_may_be_said_to_be_missing(
    case: Path,
) -> None:
    claims = [claim("no_data_about", quote="redis"), claim("no_data_about", quote="kafka")]
    with serving(DONE, says({"claims": claims, "inferences": []})) as server:
        answered = ask(case, server, "is redis slow?")
    assert [one.text for one in answered.claims] == ["Nothing in the data is called “redis”."]
    assert len(answered.dropped) == 1, "nobody asked about kafka"


def test_the_model_is_offered_relations_and_steps(case: Path) -> None:
    with serving(DONE, says(good_report(case))) as server:
        investigated(case, server)
    system, first = (m["content"] for m in server.requests[0]["messages"][:2])
    assert "- `explained_by`: " in system
    assert "{relations}" not in system
    assert "\nN1 step: Roll back checkout v2026.11.20-1 (4f2a9c1)." in first
    assert first.startswith("<data>\nalert from pagerduty, ")
    assert first.endswith("\n</data>")
