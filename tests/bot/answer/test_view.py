"""One answer, and everything that shows it: all say the same."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faultline.analysis.case.folder import json_bytes
from faultline.analysis.vocabulary import Claim, Verdict
from faultline.bot.answer.exports.answered import read_answered
from faultline.bot.answer.exports.coding_agent import hand_off
from faultline.bot.answer.exports.formats import document
from faultline.bot.answer.exports.postmortem import postmortem
from faultline.bot.answer.replay import print_report, replay
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.plain_message import answer_text_lines
from faultline.bot.answer.targets.slack.message import final_message
from faultline.bot.answer.view import NO_REPORT, answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.bot.conversation import about_cause
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.web.investigation_view import build_view
from tests.bot.answer.targets.answers import (
    PAGE,
    a_diagnosis,
    a_report,
    an_alert,
    an_investigation,
)
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS
from tests.scenarios.small_case import write_small_case

AT = datetime(2026, 11, 20, 4, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def renderings(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """Every rendering of the answer to one small case, by name."""
    folder = write_small_case(tmp_path_factory.mktemp("view") / "case")
    replayed = replay(folder)
    view, investigation = replayed.view, an_investigation()
    (folder / "findings.json").write_bytes(json_bytes(replayed.diagnosis))
    (folder / "report.json").write_bytes(json_bytes(replayed.report))
    answered = read_answered(folder)
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_report(replayed)
    slack = final_message(investigation, view, PAGE)
    page = build_view(investigation, [], folder)
    shown_steps = [f"{step.action} {step.check}" for step in page.next_steps]
    held = AnsweredCase(investigation, replayed.case, replayed.diagnosis, replayed.report, PAGE, AT)
    said = [about_cause.cause(held), about_cause.next_steps(held)]
    texts = {
        "page": f"{page.headline} {page.causes[0]} {shown_steps} {page.confidence}",
        "conversation": str(said),
        "slack": slack.text + str(slack.blocks),
        "pagerduty": note_text(investigation, view, PAGE),
        "plain": "\n".join(answer_text_lines(investigation, view, PAGE)),
        "markdown": to_markdown(view),
        "terminal": " ".join(printed.getvalue().split()),
        "json": document(answered),
        "postmortem": postmortem(answered),
        "task": hand_off(answered),
    }
    return texts, folder


def plain(text: str) -> str:
    """Without what media escape or cut differently."""
    kept = "".join(c for c in text if c.isalnum() or c.isspace())
    return " ".join(kept.split())


def test_all_name_the_same_headline_cause_step_and_confidence(
    renderings: tuple[dict[str, str], Path],
) -> None:
    texts, folder = renderings
    view = replay(folder).view
    assert view.cause is not None
    percent = round(100 * view.confidence)
    for name, text in texts.items():
        said = plain(text)
        if name != "task":  # it names the cause, and quotes the sentences under the headline
            # Where the state says "Likely cause", the sentence behind it needs no "probably".
            assert plain(view.headline).replace("probably ", "")[:50] in said.replace(
                "probably ", ""
            ), name
        assert view.cause.subject in said, name
        assert plain(view.next_steps[0].text)[:60] in said, name
        shares = (f"{percent} %", f"{percent}%", f"{view.confidence:.2f}", str(view.confidence))
        assert any(share in text for share in shares), name


def test_what_it_rests_on_and_what_it_names() -> None:
    diagnosis = a_diagnosis()
    view = answer_view(an_alert(), diagnosis, a_report())
    assert view.cause is not None
    assert view.cause.rank == min(cause.rank for cause in diagnosis.causes)
    assert set(view.cause.findings) <= view.rests_on
    assert {found.id for found in view.named} >= view.rests_on & set(view.findings)


def test_without_a_step_of_the_report_the_first_cause_has_one() -> None:
    diagnosis = a_diagnosis()
    first = min(diagnosis.causes, key=lambda cause: cause.rank)
    causes = (first.model_copy(update={"next_step": "Roll it back"}),)
    diagnosis = diagnosis.model_copy(update={"causes": causes})
    view = answer_view(an_alert(), diagnosis, a_report(next_steps=()))
    assert view.next_steps == (Claim(text="Roll it back", findings=first.findings[:3]),)


def test_where_nothing_is_wrong_nothing_is_suspected() -> None:
    diagnosis = a_diagnosis().model_copy(update={"verdict": Verdict.NO_ACTIVE_INCIDENT})
    view = answer_view(an_alert(), diagnosis, None)
    assert view.causes
    assert view.suspects == ()
    assert view.headline == view.causes[0].summary


def test_a_report_that_never_came_is_no_refused_claim() -> None:
    dropped = (f"{NO_REPORT}model time limit of 40 s reached", 'claim "x": F1 did not rise')
    report = word(DIAGNOSIS, ALERT).model_copy(update={"dropped": dropped})
    assert answer_view(ALERT, DIAGNOSIS, report).refused == dropped[1:]
