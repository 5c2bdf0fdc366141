"""A provider's incident beside the alert: blamed where it is called, else named and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Finding, Section, Verdict
from faultline.bot.answer.writer.doubts import checked
from faultline.bot.answer.writer.story import story_of
from tests.analysis.cases import START, at, series, write_case
from tests.analysis.states.incidents import calls, events

SLOW = series("checkout", "p99_ms", 200, 2000)
ALERT = Alert(source="test", title="checkout is slow", started_at=START, service="checkout")
BUSY = series("checkout", "cpu_percent", 30, 97)


def outage(fact: str = "provider_outage", since: float = -4, **more: Any) -> dict[str, Any]:
    """A row as the connector of status pages makes it."""
    row = {"kind": "Provider", "name": "stripe", "fact": fact, "since": at(since)}
    return {**row, "field": "stripe, stripe.com", "value": "API errors (major)", **more}


def answer(folder: Path, *states: dict[str, Any], **more: Any) -> Diagnosis:
    """For an alert about checkout."""
    alert = {"service": "checkout", "signal": "p99_ms"}
    return diagnose(write_case(folder, alert=alert, states=states, **more))


def upstream(diagnosis: Diagnosis) -> list[Finding]:
    """The incidents that accuse nobody."""
    return [one for one in diagnosis.findings if one.kind == "upstream_incident"]


def test_an_outage_of_a_provider_that_nobody_calls_is_named_and_not_blamed(tmp_path: Path) -> None:
    given = answer(tmp_path, outage(), metrics=SLOW, topology=calls("checkout cart"))
    assert [one.subject for one in upstream(given)] == ["stripe"]
    assert "stripe" not in {cause.subject for cause in given.causes}
    (claim,) = checked(story_of(given, ALERT), given)
    assert claim.section is Section.CHECKED
    assert claim.text == (
        "Provider stripe reports an outage: API errors (major). No collected call or failing line "
        "leads there."
    )


def test_it_alone_is_no_cause(tmp_path: Path) -> None:
    given = answer(tmp_path, outage())
    assert given.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert given.causes == ()
    assert len(upstream(given)) == 1
    called = answer(tmp_path / "called", outage(), topology=calls("checkout api.stripe.com"))
    assert called.verdict is Verdict.INSUFFICIENT_EVIDENCE


def test_a_provider_that_the_alerting_service_calls_is_a_possible_cause(tmp_path: Path) -> None:
    edges = calls("checkout payments", "payments api.stripe.com")
    given = answer(tmp_path, outage(), metrics=SLOW, topology=edges)
    assert upstream(given) == []
    cause = given.causes[1]
    assert cause.subject == "api.stripe.com"
    assert 0.1 < cause.confidence < 0.4
    assert cause.kind == "provider_outage"
    assert "status page" in cause.next_step


def test_what_the_service_shows_itself_comes_before_the_provider(tmp_path: Path) -> None:
    edges = calls("checkout api.stripe.com")
    given = answer(tmp_path, outage(), metrics=[*SLOW, *BUSY], topology=edges)
    assert (given.causes[0].subject, given.causes[0].kind) == ("checkout", "resource_saturation")
    assert given.causes[0].confidence > 0.7
    assert "api.stripe.com" in [one.subject for one in given.causes]


def test_only_a_service_that_the_alert_depends_on_counts(tmp_path: Path) -> None:
    edges = calls("reports api.stripe.com", "checkout cart")
    given = answer(tmp_path, outage(), metrics=SLOW, topology=edges)
    assert len(upstream(given)) == 1


@pytest.mark.parametrize("node", ["notstripe.com", "stripe.com.example", "stripes"])
def test_a_name_that_only_looks_like_it_is_another(tmp_path: Path, node: str) -> None:
    given = answer(tmp_path, outage(), metrics=SLOW, topology=calls(f"checkout {node}"))
    assert len(upstream(given)) == 1


def test_failing_lines_that_name_its_domain_tie_it_too(tmp_path: Path) -> None:
    text = "POST https://api.stripe.com/v1/charges failed: 503"
    lines = [row | {"level": "ERROR"} for row in events("checkout", text, range(1, 20))]
    given = answer(tmp_path, outage(), metrics=SLOW, logs=lines)
    assert upstream(given) == []
    assert (given.causes[0].subject, given.causes[0].kind) == ("stripe", "provider_outage")


def test_two_lines_or_other_domains_do_not(tmp_path: Path) -> None:
    lines = events("checkout", "https://api.stripe.com failed", (1, 2))
    lines += events("checkout", "https://netstripe.com failed", (1, 2, 3, 4, 5))
    lines = [row | {"level": "ERROR"} for row in lines]
    assert len(upstream(answer(tmp_path, outage(), metrics=SLOW, logs=lines))) == 1


def test_a_service_that_the_settings_say_needs_it(tmp_path: Path) -> None:
    given = answer(tmp_path, outage(service="checkout"), metrics=SLOW)
    assert upstream(given) == []
    assert "stripe" in {cause.subject for cause in given.causes}


def test_a_smaller_incident_weighs_less(tmp_path: Path) -> None:
    sure = []
    for fact in ("provider_outage", "provider_degraded"):
        edges = calls("checkout api.stripe.com")
        given = answer(tmp_path / fact, outage(fact), metrics=SLOW, topology=edges)
        sure += [one.confidence for one in given.causes if one.subject == "api.stripe.com"]
    assert sure[0] > sure[1]


def test_it_explains_no_crash(tmp_path: Path) -> None:
    crash = {"kind": "Pod", "name": "checkout-1", "fact": "crash_loop", "since": at(-2)}
    given = answer(tmp_path, outage(service="checkout"), crash | {"service": "checkout"})
    (finding,) = (one for one in given.findings if one.kind == "end_state")
    assert finding.strength == 1.0
