from __future__ import annotations

from hypothesis import given, settings

from faultline.analysis.vocabulary import Alert, Diagnosis, Finding, Impact, Verdict
from faultline.bot.answer.writer.built_in import HEADLINE_LIMIT, word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.answer.writer.plain_text import rendered_part
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
        "Deploy “feat: load prices per line item” of checkoutservice probably made 38 % of "
        "frontend's requests fail: checkoutservice is 18x slower."
    )


def test_a_headline_says_what_is_wrong_without_what_explains_it() -> None:
    first = DIAGNOSIS.causes[0].model_copy(update={"change": None})
    headline = word(DIAGNOSIS.model_copy(update={"causes": (first,)}), ALERT, GAPS).headline
    assert headline == (
        "38 % of frontend's requests fail (0.2 % before); the trouble sits in checkoutservice, "
        "which is 18x slower."
    )


def test_a_headline_that_is_too_long_says_the_effect_alone_and_ends_once() -> None:
    long = "a-service-with-a-long-name-" * 6
    first = DIAGNOSIS.causes[0].model_copy(update={"change": None, "subject": long})
    findings = tuple(
        found.model_copy(update={"subject": long}) if found.id == "F1" else found
        for found in DIAGNOSIS.findings
    )
    told = DIAGNOSIS.model_copy(update={"causes": (first,), "findings": findings})
    headline = word(told, ALERT, GAPS).headline
    assert len(headline) <= HEADLINE_LIMIT
    assert headline.startswith("38 % of frontend's requests fail; the trouble sits in a-service")
    assert headline.endswith(".")
    assert "…." not in headline


def test_the_report_tells_effect_cause_contradiction_and_runner_up_in_that_order() -> None:
    claims = word(DIAGNOSIS, ALERT, GAPS).claims
    assert [(claim.section.value, claim.text) for claim in claims] == [
        ("happening", "It began at 15:02:40 UTC, 3.3 min before the alert."),
        ("why", "checkoutservice's p99 latency rose from 214 ms to 3.8 s at 15:02:40 UTC."),
        (
            "why",
            "Deploy 559e94c of checkoutservice, “feat: load prices per line item”, went live at "
            "14:59:22 UTC, 3.3 min before the onset.",
        ),
        (
            "why",
            "checkoutservice logs “slow request: PlaceOrder took 4120ms after 7 tries, code 503” "
            "(40 lines, none before).",
        ),
        ("unsure", "Against it: checkoutservice's requests fell from 110 to 20."),
        (
            "unsure",
            "It could also be cartservice: calls from checkoutservice to cartservice spend 584 ms "
            "on the network (usually 9.5 ms).",
        ),
    ]


def test_next_steps_are_the_causes_own() -> None:
    steps = [s.text for s in word(DIAGNOSIS, ALERT, GAPS).next_steps]
    assert steps[0] == (
        "Roll back “feat: load prices per line item” of checkoutservice (559e94c), or turn it off. "
        "Fixed when frontend's requests succeed again."
    )
    assert steps[1] == (
        "Otherwise, check the network path from checkoutservice to cartservice: the node of "
        "cartservice, packet loss, network policies, the service mesh."
    )


def test_a_sure_report_names_no_second_explanation() -> None:
    first = DIAGNOSIS.causes[0].model_copy(update={"confidence": 0.9})
    sure = DIAGNOSIS.model_copy(update={"confidence": 0.9, "causes": (first, DIAGNOSIS.causes[1])})
    report = word(sure, ALERT, ())
    assert " made 38 % of " in report.headline
    assert not any(c.text.startswith("It may be") for c in report.claims)
    assert len(report.next_steps) == 1


def test_each_verdict_is_worded_as_what_it_is() -> None:
    recovered = word(with_verdict(Verdict.RECOVERED), ALERT, ())
    quiet = word(with_verdict(Verdict.NO_ACTIVE_INCIDENT), ALERT, ())
    missing = ("spans from datadog are missing: HTTP 403.",)
    unknown = word(
        with_verdict(Verdict.INSUFFICIENT_EVIDENCE, causes=(), missing=missing), ALERT, GAPS
    )
    assert recovered.headline.startswith("Over: deploy “feat: load prices per line item”")
    assert quiet.headline == (
        "No active incident: nothing behind “checkoutservice p99 latency above 800ms for 3m” has "
        "left its usual range."
    )
    assert (
        unknown.headline == "I can't tell yet why 38 % of frontend's requests fail (0.2 % before)."
    )
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
    assert report.headline == f"I can't tell yet what is behind “{ALERT.title}”."
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
        details={"change": "v9"},
    )
    first = DIAGNOSIS.causes[0].model_copy(update={"contradicting": ("F90",)})
    told = DIAGNOSIS.model_copy(
        update={"findings": (*DIAGNOSIS.findings, late), "causes": (first, *DIAGNOSIS.causes[1:])}
    )
    report = keep_supported(word(told, ALERT, GAPS), told, ALERT)
    assert "Change v9 of checkoutservice was ruled out." in [c.text for c in report.claims]
