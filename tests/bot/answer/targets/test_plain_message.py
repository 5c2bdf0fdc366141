"""Lists and failures in plain text: how each investigation ended, and what is cut."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.vocabulary import Evidence, ModelUse
from faultline.bot.answer.lines import GAPS as GAPS_SHOWN
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.plain_message import (
    FINE_LINES,
    GAPS,
    LONGEST_TITLE,
    MAX_DIGEST_LINES,
    RELATED,
    TextParts,
    answer_text,
    answer_text_lines,
    digest_text,
    failure_line,
    outcome_line,
)
from faultline.bot.answer.view import answer_view
from faultline.bot.store.store import GroupedAlert
from tests.bot.answer.targets.answers import (
    ALERT_AT,
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_investigation,
)

PUBLIC = "https://faultline.example.com"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"status": "running", "headline": "x"}, "still being investigated"),
        ({"status": "failed", "headline": "It broke"}, "It broke"),
        ({"status": "failed", "headline": None}, "no answer"),
        (
            {"verdict": "cause_found", "confidence": 0.86, "headline": "v2"},
            "Cause found (86 %): v2",
        ),
        ({"verdict": "cause_found", "headline": "v2"}, "Cause found: v2"),
        ({"verdict": "recovered", "confidence": 0.86, "headline": "v2"}, "Recovered: v2"),
        ({"verdict": "of another version", "confidence": 0.86, "headline": "v2"}, "v2"),
    ],
)
def test_how_an_investigation_ended(fields: dict[str, Any], line: str) -> None:
    assert outcome_line(an_investigation(**fields)) == line


@pytest.mark.parametrize(
    ("count", "opening", "last"),
    [
        (1, "1 alert was investigated", "- 14 Sep 10:21 UTC  checkout error ratio above 5 %: "),
        (MAX_DIGEST_LINES, f"{MAX_DIGEST_LINES} alerts were investigated", "- 14 Sep"),
        (MAX_DIGEST_LINES + 2, "alerts were investigated", f"and 2 more: {PUBLIC}"),
    ],
)
def test_a_digest_counts_what_it_does_not_list(count: int, opening: str, last: str) -> None:
    lines = digest_text([an_investigation()] * count, PUBLIC).split("\n")
    assert lines[0].endswith(opening)
    assert lines[-1].startswith(last)
    assert len(lines) == 1 + min(count, MAX_DIGEST_LINES) + (count > MAX_DIGEST_LINES)


def test_a_failure_says_why() -> None:
    assert failure_line("no source answered.") == "Investigation failed: no source answered"
    assert failure_line("") == "Investigation failed: the reason is not known"


def test_what_became_a_part_of_another_incident_says_of_which() -> None:
    joined = an_investigation(
        status="joined", headline="Part of the incident “web fails”: web calls api, 40 s apart"
    )
    assert answer_text(Outcome(joined, None), PAGE).split("\n") == [
        "Part of the incident “web fails”: web calls api, 40 s apart",
        f"Details: {PAGE}",
    ]


def answer(*, related: int = 0, gaps: int = 0, evidence: tuple[Evidence, ...] = ()) -> list[str]:
    report = a_report(model_use=ModelUse(name="gpt", rounds=1, seconds=3))
    all_gaps = [a_gap(id=f"G{n}", reason=f"{chr(97 + n)} failed") for n in range(gaps)]
    view = answer_view(an_alert(), a_diagnosis(), report, gaps=all_gaps, evidence=evidence)
    alerts = tuple(
        GroupedAlert(an_alert(title=f"alert {n}"), f"f{n}", ALERT_AT, "same service")
        for n in range(related)
    )
    return answer_text_lines(an_investigation(related=alerts), view, PAGE)


def below(title: str, lines: list[str]) -> list[str]:
    """The items of a list."""
    if f"{title}:" not in lines:
        return []
    rest = lines[lines.index(f"{title}:") + 1 :]
    end = next((n for n, line in enumerate(rest) if not line.startswith("- ")), len(rest))
    return rest[:end]


@pytest.mark.parametrize(("count", "more"), [(0, []), (RELATED, []), (RELATED + 2, ["2"])])
def test_alerts_of_the_same_incident_are_few(count: int, more: list[str]) -> None:
    items = below("Also part of it", answer(related=count))
    assert items[:1] == (["- alert 0 (same service)"] if count else [])
    assert items[RELATED:] == [f"- and {number} more alerts" for number in more]


@pytest.mark.parametrize("count", [0, GAPS, GAPS + 1, GAPS_SHOWN + 2])
def test_gaps_that_are_not_listed_are_counted(count: int) -> None:
    items = below("Evidence we could not collect", answer(gaps=count))
    left_out = [f"- and {count - GAPS} more"] if count > GAPS else []
    assert items[GAPS:] == left_out
    assert len(items) == min(count, GAPS) + len(left_out)


def test_what_was_measured_and_is_calm_is_said_by_source() -> None:
    def measured(name: str, **more: Any) -> Evidence:
        fields = {"kind": "metrics", "source": "datadog", "query": "q", "rows": 3, **more}
        return Evidence(id=name, **fields)

    evidence = (
        measured("E1"),  # F1 rests on it.
        measured("E2"),
        measured("E3", rows=0),
        measured("E4", kind="topology"),
        *(measured(f"L{n}", source=f"loki-{n}", kind="logs") for n in range(FINE_LINES)),
        measured("E5", source="jaeger", kind="spans"),
        measured("E6", source="jaeger", kind="spans"),
    )
    items = below("Checked, nothing unusual", answer(evidence=evidence))
    assert items[:2] == ["- jaeger spans: 2 of 2 answers", "- datadog metrics: 1 of 2 answers"]
    assert len(items) == FINE_LINES


def test_the_model_is_named_last() -> None:
    assert answer()[-1] == "Model: gpt: 1 round, 0 tool calls, 3 s"


def test_a_text_is_taken_apart_into_title_lines_and_page() -> None:
    parts = TextParts.of("Title\nWhy:\n- one\n/close #12\nDetails: https://x/1")
    assert parts == TextParts("Title", ("Why:", "- one", "/close #12"), "https://x/1")
    assert parts.markdown.split("\n") == [
        "**Why:**",
        "",
        "- one",
        "",
        "\u2060/close \\#\u206012",
        "",
        "[The whole answer, with its evidence](https://x/1)",
    ]
    assert TextParts.of("Title") == TextParts("Title", (), "")
    assert TextParts.of("Title\nnot Details: x").page == ""


@pytest.mark.parametrize("length", [LONGEST_TITLE, LONGEST_TITLE + 1])
def test_a_long_title_is_cut(length: int) -> None:
    title = TextParts.of("x" * length).title
    assert len(title) == LONGEST_TITLE
    assert title.endswith("…") is (length > LONGEST_TITLE)


def test_markdown_is_cut_by_whole_lines() -> None:
    parts = TextParts("Title", ("one", "two", "three"), "https://x/1")
    whole = parts.markdown
    assert parts.markdown_within(len(whole)) == whole
    shorter = parts.markdown_within(len(whole) - 1)
    assert shorter.startswith("one\n\ntwo\n\n…\n\n[The whole answer")
    assert len(parts.markdown_within(9)) <= 9
