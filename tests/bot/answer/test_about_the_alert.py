"""What is odd about the alert itself stands in the answer, with what to change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.analysis.vocabulary import Alert, Diagnosis, Impact, Report, Section, Verdict
from faultline.bot.answer.exports.formats import status_update
from faultline.bot.answer.lines import answer_lines
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.bot.mcp.answer_tools import sentences_of
from faultline.bot.web.evidence_groups import next_steps

AT = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)
NOTHING = Diagnosis(
    verdict=Verdict.INSUFFICIENT_EVIDENCE,
    confidence=0.0,
    causes=(),
    findings=(),
    impact=Impact(sentence="", findings=()),
)


def alert(**fields: object) -> Alert:
    given = {"source": "alertmanager", "title": "Rule", "started_at": AT, "service": "ledger"}
    return Alert.model_validate({**given, **fields})


BY_A_MODEL = Report(headline="ledger fails", claims=(), written_by="gpt-x")


@pytest.mark.parametrize("report", [None, word(NOTHING, alert()), BY_A_MODEL])
def test_a_note_is_the_first_doubt_whoever_wrote_the_report(report: Report | None) -> None:
    view = answer_view(alert(notes=("The sender's clock is ahead of ours.",)), NOTHING, report)
    assert "clock is ahead" in view.section(Section.UNSURE)[0].text
    assert "clock is ahead" in answer_lines(view, page_url="https://bot/1").unsure[0].text
    assert sum("clock is ahead" in sentence.text for sentence in sentences_of(view)) == 1


@pytest.mark.parametrize(
    ("source", "labels", "change"),
    [
        ("deployment", {"deployment": "ledger"}, 'labels: {service: "{{ $labels.deployment }}"}'),
        ("exported_container", {"exported_container": "ledger"}, "honorLabels: true"),
        ("pod", {"pod": "ledger-0"}, "metricRelabelings: [{action: labeldrop, regex: service}]"),
    ],
)
def test_a_label_that_misroutes_comes_with_its_rule(
    source: str, labels: dict[str, str], change: str
) -> None:
    routed = alert(
        service_from=f"its label {source}",
        labels={"service": "mon-kube-state-metrics", "job": "kube-state-metrics", **labels},
    )
    for report in (None, word(NOTHING, routed), BY_A_MODEL):
        view = answer_view(routed, NOTHING, report)
        lines = answer_lines(view, page_url="https://bot/1")
        assert change in lines.routing[-1]
        assert change in next_steps(view, "https://bot/1")[-1].action
        assert change in sentences_of(view)[-1].text
        assert change in status_update(view, since=None).next_shift[-1]
        assert "labels: {" not in change or change in to_markdown(view).replace("\\", "")
    right = answer_view(alert(labels={"service": "ledger"}), NOTHING, None)
    assert not right.routing


@pytest.mark.parametrize(
    ("headline", "state", "rest"),
    [
        ("Over: ledger was slow", "Over", "ledger was slow"),
        ("No active incident: ledger is calm", "No active incident", "ledger is calm"),
        ("No active incident", "Not enough evidence", "No active incident"),
        ("ledger: 5 % of requests fail", "Not enough evidence", "ledger: 5 % of requests fail"),
    ],
)
def test_a_state_that_begins_the_headline_is_said_once(
    headline: str, state: str, rest: str
) -> None:
    report = BY_A_MODEL.model_copy(update={"headline": headline})
    lines = answer_lines(answer_view(alert(), NOTHING, report), page_url="https://bot/1")
    assert (lines.state, lines.headline) == (state, rest)
