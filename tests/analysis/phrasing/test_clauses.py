from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.phrasing.clauses import brief, statement
from faultline.analysis.phrasing.log_forms import message_of
from faultline.analysis.phrasing.statement import Tense, quote
from faultline.analysis.vocabulary import Finding

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


def shift(signal: str, before: float, after: float, **details: Any) -> Finding:
    numbers = {"baseline": before, "incident": after}
    if before > 0 and after > before:
        numbers["ratio"] = round(after / before, 1)
    given = {"direction": "up" if after > before else "down", "bad": True, **details}
    return Finding(
        id="F1", kind="metric_shift", subject="payments", signal=signal, strength=0.9,
        sentence="?", numbers=numbers, details=given,
    )  # fmt: skip


SLOW = shift("latency_p99_ms", 75, 2300, **{"class": "latency"})
FAILS = shift("error_ratio", 0.0, 0.087, **{"class": "errors"})


@pytest.mark.parametrize(
    ("finding", "now", "over", "caused"),
    [
        (
            SLOW,
            "payments is 31x slower (p99 75 ms → 2.3 s)",
            "payments was 31x slower (p99 75 ms → 2.3 s)",
            "made payments 31x slower (p99 75 ms → 2.3 s)",
        ),
        (
            FAILS,
            "8.7 % of payments' requests fail",
            "8.7 % of payments' requests failed",
            "made 8.7 % of payments' requests fail",
        ),
        (
            shift("availability", 99.9, 97.4, **{"class": "availability"}),
            "2.6 % of requests to payments fail (0.1 % before)",
            "2.6 % of requests to payments failed (0.1 % before)",
            "made 2.6 % of requests to payments fail (0.1 % before)",
        ),
        (
            shift("cpu_percent", 20, 97, **{"class": "cpu"}),
            "payments is out of CPU (20 % → 97 %)",
            "payments was out of CPU (20 % → 97 %)",
            "made payments run out of CPU (20 % → 97 %)",
        ),
        (
            shift("requests_per_sec", 110, 20, **{"class": "traffic"}),
            "payments' request rate fell from 110 to 20 requests/s",
            "payments' request rate fell from 110 to 20 requests/s",
            "lowered payments' request rate from 110 to 20 requests/s",
        ),
    ],
)
def test_a_statement_stands_by_itself_in_the_past_or_after_its_cause(
    finding: Finding, now: str, over: str, caused: str
) -> None:
    said = statement(finding)
    assert str(said.clause()) == now
    assert str(said.clause(Tense.OVER)) == over
    assert str(said.caused) == caused


def test_every_figure_names_its_number_and_finding() -> None:
    figures = [part for part in statement(SLOW).clause().parts if part.role == "figure"]
    assert [(part.finding, part.number) for part in figures] == [
        ("F1", "ratio"), ("F1", "baseline"), ("F1", "incident"),
    ]  # fmt: skip


def test_a_subject_that_was_just_named_is_it() -> None:
    assert str(statement(SLOW, as_pronoun=True).short()) == "it is 31x slower"


def test_a_kind_without_a_form_speaks_through_its_own_sentence() -> None:
    told = Finding(
        id="F1", kind="of_a_plugin", subject="web", strength=0.5, sentence="Clock of web drifts."
    )
    assert str(statement(told).clause()) == "clock of web drifts"
    assert statement(told).caused is None
    assert str(brief(told))


def test_numbers_that_a_finding_lacks_cost_its_form_alone() -> None:
    bare = SLOW.model_copy(update={"numbers": {}, "sentence": "payments latency rose."})
    assert str(statement(bare).clause()) == "payments latency rose"


def test_a_secret_is_hidden_before_a_quotation_is_cut() -> None:
    line = "x" * 108 + f" key {KEY}"
    assert "AKIA" not in quote(line, SLOW).text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "16:52:07.566 ERROR c.s.Contacts#37 TraceID: 7f49c528a6f0facb [find][No contacts]",
            "c.s.Contacts#37 [find][No contacts]",
        ),
        ("[2026-11-20T12:00:01Z] [worker-3] WARN pool exhausted", "pool exhausted"),
        ("ERROR failed", "ERROR failed"),
    ],
)
def test_of_a_line_its_own_words_are_quoted(line: str, said: str) -> None:
    assert message_of(line) == said


@pytest.mark.parametrize(
    ("signal", "details", "said"),
    [
        ("error_count", {"interval_s": 60.0}, "rose 8x (10 → 80 per minute)"),
        ("error_count", {"interval_s": 15.0}, "rose 8x (10 → 80 per 15 s)"),
        ("error_count", {}, "rose 8x (10 → 80)"),
        ("errors_total", {"interval_s": 15.0}, "rose 8x (10 → 80 in total)"),
        ("error_rate", {"unit": "1/s"}, "rose 8x (10 → 80 errors/s)"),
    ],
)
def test_a_count_says_what_it_is_per(signal: str, details: dict[str, Any], said: str) -> None:
    found = shift(signal, 10, 80, **{"class": "errors"}, **details)
    assert str(statement(found).clause()).endswith(said)


@pytest.mark.parametrize(("share", "said"), [(0.9901, "99 %"), (0.9962, "over 99 %"), (1, "100 %")])
def test_nearly_all_failing_requests_have_no_decimals(share: float, said: str) -> None:
    found = shift("error_ratio", 0.0, share, **{"class": "errors"})
    assert str(statement(found).clause()) == f"{said} of payments' requests fail"


def test_what_is_no_whole_number_is_counted_in_no_interval() -> None:
    found = shift("errors", 0.0003, 0.72, **{"class": "errors"}, interval_s=30.0)
    assert "per" not in str(statement(found).clause())
