"""What runbooks say stands in every reply apart from the evidence, with its provenance, and
harmless."""

from __future__ import annotations

import json
from dataclasses import replace

from faultline.analysis.vocabulary import Guidance, Report
from faultline.bot.answer.lines import answer_lines
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.slack.message import SlackMessage, final_message
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.loopback.block_kit_rules import broken_rules
from tests.bot.answer.targets.answers import (
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_investigation,
    some_evidence,
)

DASHBOARD = "https://grafana.example.com/d/checkout"
GUIDANCE = (
    Guidance(
        runbook="Backups",
        kind="expected",
        text="this alert is expected daily 02:00 to 02:30 UTC: backups run",
    ),
    Guidance(runbook="Checkout", kind="next_step", text="Ask payments on-call first."),
    Guidance(runbook="Checkout", kind="link", text="Dashboard", url=DASHBOARD),
    Guidance(runbook="Checkout", kind="link", text="Evil", url="javascript:alert(1)"),
)


def guided(*guidance: Guidance) -> Report:
    return a_report(guidance=guidance or GUIDANCE)


def slack(report: Report) -> SlackMessage:
    return final_message(
        an_investigation(),
        answer_view(
            an_investigation().alert,
            a_diagnosis(),
            report,
            gaps=[a_gap()],
            evidence=some_evidence(),
        ),
        PAGE,
    )


def test_the_answer_itself_stays_what_it_was() -> None:
    with_them, without = (
        answer_lines(answer_view(an_alert(), a_diagnosis(), report, gaps=[]), page_url=PAGE)
        for report in (guided(), a_report())
    )
    assert replace(with_them, runbooks=()) == without
    assert without.runbooks == ()
    assert [line.text for line in with_them.runbooks] == [
        "Runbook Backups says: this alert is expected daily 02:00 to 02:30 UTC: backups run",
        "Runbook Checkout says: Ask payments on-call first",
        "Runbook Checkout:",
    ]
    assert [link.url for link in with_them.runbooks[-1].links] == [DASHBOARD]


def test_slack_shows_them_below_the_evidence() -> None:
    message = slack(guided())
    shown = json.dumps(message.blocks, ensure_ascii=False)
    assert (
        shown.index("Not sure about")
        < shown.index("Runbooks")
        < shown.index("Evidence we could not collect")
    )
    assert DASHBOARD in shown
    assert "javascript" not in shown
    assert broken_rules(message.blocks, lambda _: True) == []


def test_the_longest_of_them_break_no_limit() -> None:
    long = Guidance(runbook="r" * 80, kind="next_step", text="x " * 200)
    link = Guidance(
        runbook="r" * 80, kind="link", text="t" * 80, url="https://h.example/" + "q" * 570
    )
    message = slack(guided(*[long] * 16, *[link] * 16))
    assert broken_rules(message.blocks, lambda _: True) == []


def test_the_note_lists_them_with_their_addresses() -> None:
    note = note_text(
        an_investigation(),
        answer_view(an_investigation().alert, a_diagnosis(), guided(), gaps=[]),
        PAGE,
    )
    assert "Runbooks:\n- Runbook Backups says: this alert is expected" in note
    assert f"- Runbook Checkout: Dashboard {DASHBOARD}" in note


def test_the_document_lists_them_with_links_that_cannot_break_out() -> None:
    text = to_markdown(
        answer_view(an_alert(), a_diagnosis(), guided(), gaps=[], evidence=some_evidence())
    )
    assert "## What runbooks say\n\n- Runbook Backups says" in text
    assert f"Runbook Checkout: Dashboard ([open]({DASHBOARD}))" in text
    assert "javascript" not in text
