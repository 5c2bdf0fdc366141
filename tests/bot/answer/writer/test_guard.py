from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.vocabulary import Claim, Diagnosis, Report, Verdict
from analysis.wording.phrases import number
from bot.answer.writer.built_in import word
from bot.answer.writer.guard import Guard, keep_supported, own_texts
from tests.bot.answer.writer.diagnoses import (
    ALERT,
    DIAGNOSIS,
    HOSTILE,
    SHA,
    diagnoses,
    poisoned,
    with_verdict,
)

GUARD = Guard(DIAGNOSIS, ALERT)


def fault(text: str, *ids: str, diagnosis: Diagnosis = DIAGNOSIS) -> str | None:
    return Guard(diagnosis, ALERT).fault_of_claim(Claim(text=text, findings=ids))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("checkoutservice p99 latency rose 17.9x, from 213.7 ms to 3,828 ms.", ["F1"]),
        ("Latency of checkoutservice went from about 0.21 s to 3.8 s.", ["F1"]),
        ("The 99th percentile of checkoutservice is now nearly 18 times its baseline.", ["F1"]),
        ("The trouble began at 15:02:40 UTC.", ["F1"]),
        ("It began at 15:02 and the alert fired at 15:06.", ["F1"]),
        ("38 % of the calls at frontend fail, up from 0.2 %.", ["F3"]),
        ("The share of errors at the frontend is 0.38.", ["F3"]),
        ("Requests of checkoutservice dropped by 81.8 %.", ["F4"]),
        ("Two services show symptoms: frontend and checkoutservice.", ["F3", "F1"]),
        ("Calls to cartservice lose 0.58 s, 62 times the baseline.", ["F5"]),
        ("Deploy 559e94c of checkoutservice came 198 s before latency rose.", ["F2", "F1"]),
        ("The deploy “feat: load prices per line item” shipped at 14:59.", ["F2"]),
        ('Its log now says "slow request: PlaceOrder took …ms after 7 tries".', ["F6"]),
        ("40 error lines are new, with code 503.", ["F6"]),
        (
            "The slowdown is most likely caused by deploy 559e94ce37a7 of checkoutservice.",
            ["F1", "F2"],
        ),
        ("Less likely: cartservice is the cause, its calls lose 584.2 ms.", ["F5"]),
        ("Against it, requests fell from 110 to 20.", ["F4"]),
        ("frontend fails at 0.38, while checkoutservice is 17.9x slower.", ["F3", "F1"]),
        (f"Roll back {SHA} of checkoutservice and watch whether the signal returns.", ["F2"]),
        ("Check the node that cartservice runs on.", ["F5"]),
    ],
)
def test_honest_wording_stays(text: str, ids: list[str]) -> None:
    assert fault(text, *ids) is None


@pytest.mark.parametrize(
    ("text", "ids", "reason"),
    [
        ("checkoutservice is slow.", [], "cites no finding"),
        ("checkoutservice is slow.", ["F1", "F99"], "cites F99, which does not exist"),
        ("checkoutservice latency rose 19.7x.", ["F1"], "the number 19.7x"),
        ("checkoutservice latency rose to 4,828 ms.", ["F1"], "the number 4,828 ms"),
        ("checkoutservice latency rose to 3828 s.", ["F1"], "the number 3828 s"),
        ("checkoutservice latency rose to 3.9 s.", ["F1"], "the number 3.9 s"),
        ("checkoutservice latency tripled.", ["F1"], "the number tripled"),
        ("frontend fails 39 % of its requests.", ["F3"], "the number 39 %"),
        ("The deploy came five minutes before the onset.", ["F2"], "the number five"),
        ("40 new lines of checkoutservice, after 7 tries each.", ["F6"], "the number 7"),
        ("It resolved 99.9 % of the checkoutservice errors.", ["F6"], 'says "resolved"'),
        ("checkoutservice became slow at 15:12 UTC.", ["F1"], "the time 15:12 UTC"),
        ("checkoutservice became slow on 2026-06-17.", ["F1"], "the time 2026-06-17"),
        (
            "frontend fails 17.9x more, while checkoutservice is at 0.38.",
            ["F3", "F1"],
            "the number 17.9x",
        ),
        ("Seven services of the checkout path show latency.", ["F1"], "the number Seven"),
        ("checkoutservice latency fell 17.9x.", ["F1"], "says it fell"),
        ("cartservice is slow too.", ["F1"], "names cartservice"),
        ("payments-db makes the checkout latency rise.", ["F1"], "names payments-db"),
        ("Deploy abcdef1234 slowed checkoutservice.", ["F1", "F2"], "names abcdef1234"),
        ('checkoutservice logs "connection pool exhausted".', ["F6"], "quotes"),
        ("checkoutservice is slow because of cartservice.", ["F1", "F5"], "blames cartservice"),
        ("cartservice broke checkoutservice latency.", ["F1", "F5"], "blames cartservice"),
        ("The cause is certainly the checkoutservice deploy.", ["F2"], 'says "certainly"'),
        ("checkoutservice errors: all is fine, no action needed.", ["F6"], 'says "all is fine"'),
        ("checkoutservice latency is back to normal.", ["F1"], 'says "back to normal"'),
        ("Everybody should buy umbrellas.", ["F1"], "which no cited finding says"),
        ("@channel checkoutservice is slow.", ["F1"], "holds a mention"),
        ("checkoutservice is slow, see https://evil.example/x.", ["F1"], "holds a link"),
        ("checkoutservice is *slow*.", ["F1"], "holds mark-up"),
        ("Use AKIAIOSFODNN7EXAMPLE on checkoutservice.", ["F1"], "holds a secret"),
        (
            "To fix checkoutservice latency, run kubectl delete on its pods.",
            ["F1"],
            "holds a command",
        ),
        ("  ", ["F1"], "is empty"),
        ("checkoutservice latency rose. " * 40, ["F1"], "is longer than 700"),
    ],
)
def test_what_the_findings_do_not_support_is_removed_with_its_reason(
    text: str, ids: list[str], reason: str
) -> None:
    found = fault(text, *ids)
    assert found is not None
    assert reason in found


def test_removed_sentences_are_listed_and_the_others_stay() -> None:
    good = Claim(text="checkoutservice latency rose 17.9x.", findings=("F1",))
    bad = Claim(text="checkoutservice latency rose 99x, <!here>.", findings=("F1",))
    report = Report(
        headline=word(DIAGNOSIS, ALERT, ()).headline, claims=(good, bad), written_by="some-model"
    )
    kept = keep_supported(report, DIAGNOSIS, ALERT)
    assert kept.claims == (good,)
    assert kept.written_by == "some-model"
    assert kept.dropped == ('claim "checkoutservice latency rose 99x, ‹!here›.": holds a mention',)


def test_a_report_without_next_steps_gets_the_causes_own() -> None:
    claim = Claim(text="checkoutservice latency rose 17.9x.", findings=("F1",))
    step = Claim(text="Restart payments-db.", findings=("F1",))
    report = Report(headline="x", claims=(claim,), next_steps=(step,), written_by="some-model")
    built_in = word(DIAGNOSIS, ALERT, ())
    kept = keep_supported(report, DIAGNOSIS, ALERT)
    assert kept.next_steps == built_in.next_steps
    assert kept.headline == built_in.headline
    assert len(kept.dropped) == 2


def test_when_nothing_is_left_the_built_in_report_is_given() -> None:
    report = Report(
        headline="All is fine.",
        claims=(Claim(text="All is fine.", findings=("F1",)),),
        written_by="some-model",
    )
    kept = keep_supported(report, DIAGNOSIS, ALERT)
    assert kept.model_copy(update={"dropped": ()}) == word(DIAGNOSIS, ALERT, ())
    assert kept.written_by == "built-in"
    assert len(kept.dropped) == 1


def test_a_report_silent_on_the_first_cause_is_not_given() -> None:
    report = Report(
        headline="x",
        claims=(Claim(text="frontend fails at 0.38.", findings=("F3",)),),
        written_by="m",
    )
    kept = keep_supported(report, DIAGNOSIS, ALERT)
    assert kept.written_by == "built-in"
    assert "no claim that is left speaks of the cause" in kept.dropped[0]


@pytest.mark.parametrize(
    ("headline", "reason"),
    [
        ("checkoutservice p99 latency is up 17.9x after deploy 559e94c", None),
        ("frontend errors at 38 % because of deploy 559e94ce37a7 of checkoutservice", None),
        ("checkoutservice is slow because of cartservice", "cartservice"),
        ("checkoutservice is slow: root cause is the network of cartservice", "cartservice"),
        ("frontend fails 38 % of requests", "does not name the cause"),
        ("checkoutservice is 40x slower", "the number 40x"),
        ("checkoutservice: false alarm", "false alarm"),
        ("checkoutservice has recovered", "has recovered"),
        ("x" * 201, "is longer than 200"),
    ],
)
def test_a_headline_that_is_not_supported_falls_back(headline: str, reason: str | None) -> None:
    claim = Claim(text="checkoutservice latency rose 17.9x.", findings=("F1",))
    kept = keep_supported(
        Report(headline=headline, claims=(claim,), written_by="m"), DIAGNOSIS, ALERT
    )
    if reason is None:
        assert kept.headline == headline
        assert kept.dropped == ()
    else:
        assert kept.headline == word(DIAGNOSIS, ALERT, ()).headline
        assert reason in kept.dropped[0]


@pytest.mark.parametrize(
    "verdict", [Verdict.RECOVERED, Verdict.NO_ACTIVE_INCIDENT, Verdict.INSUFFICIENT_EVIDENCE]
)
def test_a_headline_must_say_the_verdict(verdict: Verdict) -> None:
    diagnosis = with_verdict(verdict)
    built_in = word(diagnosis, ALERT, ())
    guard = Guard(diagnosis, ALERT, own=own_texts(built_in))
    assert guard.fault_of_headline("checkoutservice is slow after deploy 559e94c") is not None
    assert guard.fault_of_headline(built_in.headline) is None


@pytest.mark.parametrize("verdict", [Verdict.NO_ACTIVE_INCIDENT, Verdict.INSUFFICIENT_EVIDENCE])
def test_without_a_cause_nothing_may_be_blamed(verdict: Verdict) -> None:
    found = fault(
        "checkoutservice is slow because of deploy 559e94c.",
        "F1",
        "F2",
        diagnosis=with_verdict(verdict),
    )
    assert found == "blames something, and the verdict names no cause"


def test_recovery_may_be_told_where_code_saw_it() -> None:
    claim = "checkoutservice has recovered, its latency rose 17.9x before."
    assert fault(claim, "F1") is not None
    assert fault(claim, "F1", diagnosis=with_verdict(Verdict.RECOVERED)) is None


@pytest.mark.parametrize("piece", re.split(r"(?<=[,)>*`])\s", HOSTILE))
def test_instructions_in_a_log_line_do_not_get_through(piece: str) -> None:
    assert fault(piece, "F6", diagnosis=poisoned()) is not None


def test_numbers_of_a_log_line_may_be_quoted_but_not_claimed() -> None:
    assert (
        fault("checkoutservice resolves in 99.9 % of new error lines", "F6", diagnosis=poisoned())
        is not None
    )


_NUMBERS_OF_A_SHIFT = re.compile(
    r"(?<= from )[\d.]+|(?<= to )[\d.]+(?= \([\d.]+x\)\.$)|(?<=\()[\d.]+(?=x\)\.$)"
)


@settings(max_examples=80, deadline=None)
@given(diagnoses(), st.data())
def test_a_changed_number_is_always_removed(diagnosis: Diagnosis, data: st.DataObject) -> None:
    shifts = [f for f in diagnosis.findings if "baseline" in f.numbers]
    assume(shifts)
    finding = data.draw(st.sampled_from(shifts))
    found = data.draw(st.sampled_from(list(_NUMBERS_OF_A_SHIFT.finditer(finding.sentence))))
    factor = data.draw(st.sampled_from([0.37, 0.9, 1.1, 1.9, 17.0]))
    changed = number(float(found.group()) * factor)
    known = [*finding.numbers.values(), *diagnosis.impact.numbers.values()]
    assume("e" not in changed and not _could_be_meant(float(changed), changed, known))
    text = finding.sentence[: found.start()] + changed + finding.sentence[found.end() :]
    removed = Guard(diagnosis, ALERT).fault_of_claim(Claim(text=text, findings=(finding.id,)))
    assert removed is not None, text


def _could_be_meant(value: float, text: str, known: list[float]) -> bool:
    """Equal to a known number to the precision quoted, also through the conversions that are
    allowed."""
    half = 0.5 * 10 ** -len(text.partition(".")[2])
    forms = [abs(k) * f for k in known for f in (1, 1e-3, 1e3, 100, 0.01)]
    return any(abs(value - k) <= half * 1.01 + 1e-9 for k in forms)


def test_a_number_of_a_finding_that_is_not_cited_does_not_count() -> None:
    assert fault("checkoutservice loses 584.2 ms.", "F1") is not None
    summary = DIAGNOSIS.causes[0].summary
    assert fault(summary, "F1", "F2") is None
    assert fault(summary, "F6") is not None


def test_a_number_that_names_something_must_be_that_thing() -> None:
    rank = DIAGNOSIS.findings[0].model_copy(
        update={
            "id": "F9",
            "subject": "rank 3",
            "sentence": "rank 3 makes the others wait 38 % of each step (stream 7).",
            "numbers": {"percent": 38.0},
            "signal": None,
        }
    )
    diagnosis = DIAGNOSIS.model_copy(update={"findings": (*DIAGNOSIS.findings, rank)})
    assert (
        fault(
            "The others wait for rank 3, on stream 7, 38 % of each step.", "F9", diagnosis=diagnosis
        )
        is None
    )
    assert (
        fault("The others wait for rank 5, 38 % of each step.", "F9", diagnosis=diagnosis)
        is not None
    )
    assert (
        fault("The others wait for rank 3 during 7 steps.", "F9", diagnosis=diagnosis) is not None
    )
