"""What is posted to Slack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Claim, Finding, Impact, ModelUse, Verdict
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.slack.buttons import MAX_BUTTONS, AnswerStatus
from faultline.bot.answer.targets.slack.message import (
    MAX_TEXT,
    RELATED,
    SlackMessage,
    final_message,
    first_message,
    joined_message,
    slack_alert_failed_message,
)
from faultline.bot.answer.targets.tickets.target import TicketOffer
from faultline.bot.answer.view import answer_view
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.store import GroupedAlert
from faultline.loopback.block_kit_rules import broken_rules, too_long
from tests.bot.answer.targets.answers import (
    ALERT_AT,
    GRAPH,
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_investigation,
    some_evidence,
)

HOSTILE = (
    "<!channel> @here <@U1|x> <http://evil.example|click> *b* `c` "
    "\u202e\n• forged line & http://evil.example :tada:"
)


def elements(blocks: Any) -> Iterator[dict[str, Any]]:
    """All elements of all blocks, however deep."""
    if isinstance(blocks, dict):
        yield blocks
        blocks = list(blocks.values())
    if isinstance(blocks, (list, tuple)):
        for block in blocks:
            yield from elements(block)


def shown(message: SlackMessage) -> str:
    """The text of the rich text blocks."""
    return "".join(e["text"] for e in elements(message.blocks) if e.get("type") in {"text", "link"})


def links(message: SlackMessage) -> list[str]:
    """Every address that Slack would make clickable."""
    rich = [e["url"] for e in elements(message.blocks) if e.get("type") == "link"]
    mrkdwn = [e["text"] for e in elements(message.blocks) if e.get("type") == "mrkdwn"]
    return rich + re.findall(r"<([^|>]+)\|", " ".join(mrkdwn))


def a_final(**more: Any) -> SlackMessage:
    given = {
        "investigation": an_investigation(),
        "diagnosis": a_diagnosis(),
        "report": a_report(),
        "gaps": [a_gap()],
        "evidence": some_evidence(),
        "chart_file_id": "F000000001",
        **more,
    }
    alert = given["investigation"].alert
    said = {name: given.pop(name) for name in ("diagnosis", "report", "gaps", "evidence")}
    return final_message(view=answer_view(alert, **said), page_url=PAGE, **given)


def test_the_first_message_names_the_alert_and_links_the_page() -> None:
    message = first_message(an_investigation(), PAGE)
    assert shown(message).startswith(" Investigating  checkout error ratio above 5 %")
    assert "service checkout" in shown(message)
    assert links(message) == [PAGE]
    assert message.text.startswith("Investigating")


def test_a_question_and_repeats_are_shown() -> None:
    message = first_message(an_investigation(question="why is checkout slow?", repeats=2), PAGE)
    assert "why is checkout slow?" in shown(message)
    assert "repeated 2 times" in json.dumps(message.blocks)


def lines_of(message: SlackMessage) -> list[str]:
    """The first block as it is read: a line for each paragraph and each item of a list."""
    text = ""
    for part in message.blocks[0]["elements"]:
        is_list = part["type"] == "rich_text_list"
        for item in part["elements"] if is_list else [part]:
            said = "".join(one.get("text", "") for one in item["elements"])
            text += f"\n{said}\n" if is_list else said
        text += "\n" if is_list else ""
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_the_answer_is_read_from_cause_to_confidence() -> None:
    assert lines_of(a_final()) == [
        "Likely cause: payments v2 breaks checkout",
        "What's happening  It began at 10:14 UTC, 7 min before the alert. No symptom of "
        "checkout itself, which alerted, was found.",
        "Why",
        "The error ratio of payments rose 31x right after v2  graph finding",
        "Do next  Roll back v2 of payments",
        "Not sure about",
        "Against it: db latency did not move  finding",
        "Confidence  Likely (86 %)",
    ]


def test_each_line_of_evidence_ends_in_links_to_the_vendor_or_to_its_finding() -> None:
    message = a_final()
    lists = [e for e in elements(message.blocks) if e.get("type") == "rich_text_list"]
    first = lists[0]["elements"][0]["elements"]
    assert first[0]["text"].startswith("The error ratio of payments rose 31x")
    assert [e["url"] for e in first if e["type"] == "link"] == [GRAPH, f"{PAGE}#F2"]


def test_what_speaks_against_the_cause_and_what_could_not_be_collected_is_said() -> None:
    text = shown(a_final())
    assert "Against it: db latency did not move" in text
    assert "Evidence we could not collect" in text
    assert "rate limit reached" in text


def test_what_memory_knows_stands_apart_from_the_evidence_and_links_the_earlier_investigation() -> (
    None
):
    told = (
        "Second time in 30 days, last on 3 Nov: payments is out of memory, and it shows again now."
    )
    said = "Of 9 answers at this confidence that people judged, 7 were right."
    earlier = Finding(
        id="F8",
        kind="earlier_investigation",
        subject="payments",
        strength=0.1,
        sentence=told,
        details={"investigation": "20261103-010203-abcdef"},
    )
    record = Finding(id="F9", kind="answer_record", subject="payments", strength=0.1, sentence=said)
    claims = (
        *a_report().claims,
        Claim(text=told, findings=("F8", "F1")),
        Claim(text=said, findings=("F9",)),
    )
    diagnosis = a_diagnosis(findings=(*a_diagnosis().findings, earlier, record))
    message = a_final(diagnosis=diagnosis, report=a_report(claims=claims))
    text = shown(message)
    assert "Likely (86 %). Of 9 answers" in text
    assert text.count(told.rstrip(".")) == 1
    assert text.count("Of 9 answers") == 1
    assert text.index("Earlier") > text.index("Not sure about") > text.index("Why")
    assert PAGE.replace("20260914-102100-ab12cd", "20261103-010203-abcdef") in links(message)
    note = note_text(
        an_investigation(),
        answer_view(an_investigation().alert, diagnosis, a_report(claims=claims), gaps=[]),
        PAGE,
    )
    assert f"- {told.rstrip('.')}" in note


def test_the_chart_is_an_image_block_that_can_be_left_out() -> None:
    message = a_final()
    assert [b["slack_file"] for b in message.blocks if b["type"] == "image"] == [
        {"id": "F000000001"}
    ]
    assert not message.without_image().has_image


def test_the_footer_says_who_wrote_it_and_how_long_it_took() -> None:
    footer = json.dumps(a_final(report=a_report(written_by="gpt-x", dropped=("a", "b"))).blocks[-1])
    assert "written by gpt-x from 3 findings" in footer
    assert "2 claims refused" in footer
    assert "answered in 41 s" in footer


@pytest.mark.parametrize(
    ("verdict", "label", "step"),
    [
        (Verdict.RECOVERED, "Recovered", "Nothing now; watch for a repeat."),
        (Verdict.NO_ACTIVE_INCIDENT, "No active incident", "Nothing now; check the alert's"),
        (Verdict.INSUFFICIENT_EVIDENCE, "Not enough evidence", "Ask again in a few minutes"),
    ],
)
def test_a_verdict_without_a_cause_says_so(verdict: Verdict, label: str, step: str) -> None:
    diagnosis = a_diagnosis(verdict, causes=(), confidence=0.3, impact=Impact(sentence=""))
    report = a_report(claims=(), next_steps=())
    lines = lines_of(a_final(diagnosis=diagnosis, report=report))
    assert lines[0].startswith(f"{label}: ")
    assert lines[1].startswith(f"Do next  {step}")
    assert len(lines) == 2


def test_insufficient_evidence_lists_what_is_missing_and_claims_no_cause() -> None:
    diagnosis = a_diagnosis(
        Verdict.INSUFFICIENT_EVIDENCE, missing=("Metrics of payments before 10:00.",)
    )
    text = shown(a_final(diagnosis=diagnosis))
    assert "What I see" in text
    assert "Confidence" not in text
    assert "What is missing" in text
    assert "Metrics of payments before 10:00" in text


def test_a_failed_investigation_says_why_and_what_to_do() -> None:
    message = slack_alert_failed_message(an_investigation(), "the case store is full", PAGE)
    assert "the case store is full" in shown(message)
    assert "by hand" in shown(message)


def test_what_became_a_part_of_another_incident_names_it_and_no_cause() -> None:
    joined = an_investigation(
        status="joined", headline="Part of the incident “web fails”: web calls api, 40 s apart"
    )
    text = shown(joined_message(joined, PAGE))
    assert "Part of the incident “web fails”: web calls api" in text
    assert "Joined" in text
    assert "failed" not in text


def test_hostile_text_neither_mentions_nor_links_nor_adds_lines() -> None:
    finding = Finding(
        id="F1", kind="log_new", subject=HOSTILE, strength=0.5, sentence=HOSTILE, evidence=("E1",)
    )
    diagnosis = a_diagnosis(
        findings=(finding,), impact=Impact(sentence=HOSTILE), missing=(HOSTILE,)
    )
    evidence = (
        some_evidence()[0].model_copy(
            update={"link": "https://a|b> <!channel>", "source": HOSTILE}
        ),
    )
    report = a_report(
        headline=HOSTILE,
        claims=(Claim(text=HOSTILE, findings=("F1", "nope")),),
        written_by=HOSTILE,
        dropped=(HOSTILE,),
    )
    alert = an_alert().model_copy(
        update={"title": HOSTILE, "service": HOSTILE, "severity": HOSTILE}
    )
    investigation = an_investigation(alert, question=HOSTILE, headline=HOSTILE)
    gaps = [a_gap(reason=HOSTILE, source=HOSTILE)]
    messages = [
        first_message(investigation, PAGE),
        a_final(
            investigation=investigation,
            diagnosis=diagnosis,
            report=report,
            gaps=gaps,
            evidence=evidence,
        ),
        slack_alert_failed_message(investigation, HOSTILE, PAGE),
    ]
    for message in messages:
        assert {url.split("#")[0] for url in links(message)} == {PAGE}
        assert not re.search(r"<[!@#]", message.text)
        assert "<" not in message.text
        mrkdwn = [e for e in elements(message.blocks) if e.get("type") == "mrkdwn"]
        assert all(
            e["verbatim"] and "<!" not in e["text"] and "<@" not in e["text"] for e in mrkdwn
        )
        kinds = {e.get("type") for e in elements(message.blocks)}
        assert not kinds & {"user", "usergroup", "broadcast", "channel", "section", "markdown"}
        assert "\u202e" not in json.dumps(message.blocks, ensure_ascii=False)
        assert not any(
            "forged" in line and line.startswith("•") for line in shown(message).splitlines()
        )


TEXT = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "<" * 5000,
            "&" * 5000,
            "ж" * 5000,
            "\U0001f534" * 3000,
            "a" * 20_000,
            "",
            "x y " * 3000,
            "\ud800",
        ]
    ),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(list(Verdict)), st.integers(0, 60))
def test_the_longest_inputs_stay_within_slacks_limits(
    data: st.DataObject, verdict: Verdict, count: int
) -> None:
    text = data.draw(TEXT)
    ids = tuple(f"F{n}" for n in range(count))
    findings = tuple(
        Finding(
            id=i,
            kind="log_new",
            subject=text,
            strength=0.5,
            sentence=f"{i} {text}",
            evidence=("E1",),
        )
        for i in ids
    )
    cause = (
        a_diagnosis()
        .causes[0]
        .model_copy(
            update={
                "summary": text,
                "next_step": text,
                "findings": ids,
                "contradicting": ids,
                "subject": text,
            }
        )
    )
    diagnosis = a_diagnosis(
        verdict,
        causes=(cause,) * min(count, 8),
        findings=findings,
        impact=Impact(sentence=text),
        missing=(text,) * count,
    )
    claims = tuple(Claim(text=f"{n} {text}", findings=ids) for n in range(count))
    link = "https://vendor.example/" + "q" * 570
    message = a_final(
        investigation=an_investigation(
            an_alert().model_copy(update={"title": text}), question=text
        ),
        diagnosis=diagnosis,
        report=a_report(
            headline=text,
            claims=claims,
            next_steps=claims,
            written_by=text,
            dropped=(text,) * count,
        ),
        gaps=[a_gap(reason=text, source=text)] * count,
        evidence=(some_evidence()[0].model_copy(update={"link": link, "source": text}),),
    )
    assert broken_rules(message.blocks, lambda _: True) == []
    assert not too_long(message.blocks)
    assert len(message.text) <= MAX_TEXT
    assert not re.search(r"&[a-z]*\Z", message.text)
    json.dumps(message.blocks, ensure_ascii=False).encode("utf-8")


def test_evidence_is_given_up_before_the_six_lines_are() -> None:
    link = "https://vendor.example/" + "q" * 570
    evidence = tuple(
        some_evidence()[0].model_copy(update={"id": f"E{n}", "link": link}) for n in range(1, 9)
    )
    findings = tuple(
        Finding(
            id=f"F{n}",
            kind="log_new",
            subject="s",
            strength=0.5,
            sentence=f"{n} " + "long " * 80,
            evidence=(f"E{n}",),
        )
        for n in range(1, 9)
    )
    claims = tuple(
        Claim(text=f"{n} " + "long " * 80, findings=tuple(f"F{m}" for m in range(1, 9)))
        for n in range(9)
    )
    page = "https://faultline.example.com/" + "p" * 500
    message = final_message(
        an_investigation(),
        answer_view(
            an_investigation().alert,
            a_diagnosis(findings=findings),
            a_report(claims=claims),
            gaps=[],
            evidence=evidence,
        ),
        page,
    )
    text = shown(message)
    assert "Confidence" in text
    assert not too_long(message.blocks)
    assert len([e for e in elements(message.blocks) if e.get("type") == "rich_text_list"]) > 0


def test_whatever_may_be_asked_for_is_offered_and_each_thing_that_was_stands_by_itself() -> None:
    names = ("jira_issues", "linear_issues", "github_issues", "gitlab_issues")
    tickets = [TicketOffer(name, name, f"Create {name}") for name in names]
    tickets += [
        TicketOffer("github_reverts", "draft revert on GitHub", "Draft a revert of #12"),
        TicketOffer("gitlab_reverts", "draft revert on GitLab", "Draft !3", title="!4"),
    ]
    at = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
    judged = AnswerLabel("x", right=False, cause="the cart", who="Ann", at=at)
    status = AnswerStatus(label=judged, tickets=tuple(tickets))
    message = a_final(status=status)
    assert broken_rules(message.blocks, lambda _: True) == []
    rows = [block for block in message.blocks if block["type"] == "actions"]
    assert all(len(row["elements"]) <= MAX_BUTTONS for row in rows)
    said = json.dumps(message.blocks)
    for ticket in tickets:
        assert f'"{ticket.label}"' in said
    lines = [block["elements"] for block in message.blocks if block["type"] == "context"]
    [[ann], [revert]] = lines[:2]
    assert "said Ann" in ann["text"]
    assert revert["text"] == "Draft revert on GitLab !4"


def grouped(title: str, **more: Any) -> GroupedAlert:
    fields = {"fingerprint": "f1", "at": ALERT_AT, "why": "same service", **more}
    return GroupedAlert(an_alert(title=title), **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Faultline 20260914-102100-ab12cd ·"),
        ({"repeats": 1}, "the alert repeated 1 time ·"),
        ({"repeats": 2}, "the alert repeated 2 times ·"),
        ({"rate_limited": 1}, "1 later alert in this channel not investigated"),
        ({"rate_limited": 2}, "2 later alerts in this channel not investigated"),
        ({}, "answered in 41 s"),
        ({"finished_at": None}, "a model is still investigating"),
    ],
)
def test_the_footer_counts(fields: dict[str, Any], words: str) -> None:
    said = str(a_final(investigation=an_investigation(**fields)).blocks)
    assert words in said
    assert ("repeated" in said) is ("repeats" in fields)
    assert ("answered in" in said) is ("finished_at" not in fields)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, "written by the built-in writer from 3 findings"),
        ({"written_by": "gpt"}, "written by gpt from 3 findings"),
        ({"dropped": ("a: no",)}, "1 claim refused"),
        ({"dropped": ("a: no", "b: no")}, "2 claims refused"),
        (
            {"model_use": ModelUse(name="gpt", rounds=2, seconds=3)},
            "gpt: 2 rounds, 0 tool calls, 3 s",
        ),
    ],
)
def test_the_footer_says_who_wrote_it(report: dict[str, Any], words: str) -> None:
    said = str(a_final(report=a_report(**report)).blocks)
    assert words in said
    assert ("refused" in said) is ("dropped" in report)


@pytest.mark.parametrize(
    ("alert", "line"),
    [
        (grouped("disk full"), "disk full · same service"),
        (grouped("disk full", why=""), "disk full"),
        (grouped("disk full", repeats=1, why=""), "disk full · 2 times"),
        (grouped("disk full", resolved_at=ALERT_AT, why=""), "disk full · resolved"),
    ],
)
def test_an_alert_of_the_same_incident_is_one_line(alert: GroupedAlert, line: str) -> None:
    blocks = a_final(investigation=an_investigation(related=(alert,))).blocks
    assert line in [item.get("text") for item in elements(blocks)]
    assert "1 more alert of the same incident" in str(blocks)


@pytest.mark.parametrize("count", [RELATED, RELATED + 2])
def test_of_many_alerts_of_the_same_incident_the_rest_is_counted(count: int) -> None:
    related = tuple(grouped(f"alert {number}") for number in range(count))
    said = str(a_final(investigation=an_investigation(related=related)).blocks)
    assert f"{count} more alerts of the same incident" in said
    assert f"alert {RELATED - 1} ·" in said
    assert f"alert {RELATED} ·" not in said
    assert ("and 2 more, on the page" in said) is (count > RELATED)
