from __future__ import annotations

from hypothesis import given, settings

from analysis.vocabulary import Alert, Diagnosis, Finding, Impact, Verdict
from bot.answer.writer.built_in import HEADLINE_LIMIT, word
from bot.answer.writer.guard import keep_supported
from bot.answer.writer.plain_text import rendered_part
from tests.bot.answer.writer.diagnoses import (
    ALERT,
    DIAGNOSIS,
    GAPS,
    alerts,
    diagnoses,
    poisoned,
    with_verdict,
)


def test_the_headline_says_what_is_wrong_because_of_what() -> None:
    assert word(DIAGNOSIS, ALERT, GAPS).headline == (
        "frontend error_ratio rose from 0.002 to 0.38 (190x). "
        "Likely cause: deploy 559e94ce37a7 of checkoutservice came 3.3 min before the onset."
    )


def test_a_headline_says_what_is_wrong_without_what_explains_it() -> None:
    first = DIAGNOSIS.causes[0].model_copy(update={"change": None})
    headline = word(DIAGNOSIS.model_copy(update={"causes": (first,)}), ALERT, GAPS).headline
    assert headline.endswith(". Likely cause: checkoutservice became slow.")


def test_a_headline_whose_effect_is_cut_ends_it_once() -> None:
    felt = DIAGNOSIS.findings[0]
    names = ("a-service-with-a-long-name-" * 6, "another-service-with-a-long-name-" * 4)
    first = DIAGNOSIS.causes[0].model_copy(
        update={"change": None, "summary": f"{names[1]} became slow: so."}
    )
    findings = tuple(
        f.model_copy(update={"sentence": f"{names[0]} fails."})
        if f.id in DIAGNOSIS.impact.findings
        else f
        for f in (felt, *DIAGNOSIS.findings[1:])
    )
    headline = word(
        DIAGNOSIS.model_copy(update={"causes": (first,), "findings": findings}), ALERT, GAPS
    ).headline
    assert "…" in headline
    assert "…." not in headline


def test_the_report_tells_effect_cause_contradiction_and_runner_up_in_that_order() -> None:
    texts = [c.text for c in word(DIAGNOSIS, ALERT, GAPS).claims]
    assert texts[0] == DIAGNOSIS.impact.sentence
    assert texts[1] == DIAGNOSIS.causes[0].summary
    assert texts[-2] == "Against it: checkoutservice requests fell from 110 to 20 (-81.8 %)."
    assert texts[-1].startswith("Less likely: cartservice loses time on the network")
    assert len(texts) <= 7


def test_next_steps_are_the_causes_own() -> None:
    steps = [s.text for s in word(DIAGNOSIS, ALERT, GAPS).next_steps]
    assert steps[0] == DIAGNOSIS.causes[0].next_step
    assert (
        steps[1]
        == "If that is not it: Check the network path and the node that cartservice runs on."
    )


def test_a_sure_report_names_no_second_explanation() -> None:
    first = DIAGNOSIS.causes[0].model_copy(update={"confidence": 0.9})
    sure = DIAGNOSIS.model_copy(update={"confidence": 0.9, "causes": (first, DIAGNOSIS.causes[1])})
    report = word(sure, ALERT, ())
    assert ". Cause: deploy" in report.headline
    assert not any(c.text.startswith("Less likely") for c in report.claims)
    assert len(report.next_steps) == 1


def test_each_verdict_is_worded_as_what_it_is() -> None:
    recovered = word(with_verdict(Verdict.RECOVERED), ALERT, ())
    quiet = word(with_verdict(Verdict.NO_ACTIVE_INCIDENT), ALERT, ())
    missing = ("spans from datadog are missing: HTTP 403.",)
    unknown = word(
        with_verdict(Verdict.INSUFFICIENT_EVIDENCE, causes=(), missing=missing), ALERT, GAPS
    )
    assert recovered.headline.startswith("Recovered: frontend")
    assert (
        quiet.headline
        == "No active incident was found for: checkoutservice p99 latency above 800ms for 3m"
    )
    assert unknown.headline.startswith("Not enough evidence for a cause: checkoutservice p99")
    assert unknown.headline.endswith(". Spans from datadog are missing: HTTP 403.")
    assert quiet.next_steps == unknown.next_steps == ()


def test_without_findings_there_is_a_headline_and_nothing_is_claimed() -> None:
    empty = Diagnosis(
        verdict=Verdict.INSUFFICIENT_EVIDENCE,
        confidence=0,
        causes=(),
        findings=(),
        impact=Impact(sentence="None found."),
    )
    report = word(empty, ALERT, GAPS)
    assert report.claims == report.next_steps == ()
    assert "apm_read is missing" in report.headline
    assert keep_supported(report, empty, ALERT, gaps=GAPS) == report


def test_hostile_data_is_shown_harmless() -> None:
    report = word(
        poisoned(),
        ALERT.model_copy(update={"title": "<!channel> *all fine* https://evil.example"}),
        (),
    )
    for text in (report.headline, *(c.text for c in report.claims)):
        assert rendered_part(text) is None


@settings(max_examples=40, deadline=None)
@given(diagnoses(), alerts)
def test_the_built_in_report_always_passes_its_own_guard(
    diagnosis: Diagnosis, alert: Alert
) -> None:
    report = word(diagnosis, alert, GAPS)
    assert len(report.headline) <= HEADLINE_LIMIT
    assert rendered_part(report.headline) is None
    assert keep_supported(report, diagnosis, alert, gaps=GAPS) == report


def test_a_change_that_is_ruled_out_is_not_told_against_the_cause() -> None:
    late = Finding(
        id="F90",
        kind="change_ruled_out",
        subject="checkoutservice",
        strength=0.1,
        sentence="Deploy v9 of checkoutservice came 4 min after the onset.",
        numbers={"minutes": 4},
    )
    first = DIAGNOSIS.causes[0].model_copy(update={"contradicting": ("F90",)})
    told = DIAGNOSIS.model_copy(
        update={"findings": (*DIAGNOSIS.findings, late), "causes": (first, *DIAGNOSIS.causes[1:])}
    )
    report = keep_supported(word(told, ALERT, GAPS), told, ALERT)
    assert f"Ruled out: {late.sentence}" in [c.text for c in report.claims]
