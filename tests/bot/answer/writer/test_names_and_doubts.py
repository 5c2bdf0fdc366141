"""What answers name and do not only count: versions, reasons, the alerting service, doubts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.vocabulary import Diagnosis, Finding, Section
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.headline import without_the_only_place
from faultline.bot.answer.writer.story import began, change_by_title
from tests.bot.answer.writer.test_story import ALERT, FAILS, WEB, diagnosis, found, line, shift


def change(title: str, kind: str = "deploy", found_as: str = "change_near") -> Finding:
    details = {"change": "CE7", "change_kind": kind, "title": title, "reason": "it came later"}
    return found("F7", "cart", kind=found_as, signal=kind, details=details)


def texts(told: Diagnosis, section: Section) -> list[str]:
    return [claim.text for claim in word(told, ALERT).claims if claim.section is section]


@pytest.mark.parametrize(
    ("title", "kind", "named"),
    [
        ("Deploy cart v1.7.0", "deploy", "deploy of cart v1.7.0"),
        (
            "Config of cart: update pool sizes",
            "config",
            "config change “update pool sizes” of cart",
        ),
        (
            "Rollout of cart: limits.memory 1Gi -> 512Mi (deployment shop/cart, revision 5)",
            "deploy",
            "deploy “limits.memory 1Gi -> 512Mi” of cart",
        ),
        ("OPS-1401", "deploy", None),
        ("", "deploy", None),
        ("Move shard-2 of the ranker from the node cache to the object store", "config", None),
    ],
)
def test_a_change_is_called_by_what_its_title_names(
    title: str, kind: str, named: str | None
) -> None:
    told = change_by_title(change(title, kind))
    assert (str(told) if told else None) == named


def test_what_a_rollout_changed_is_named_with_its_service() -> None:
    title = "Rollout of cart: limits.memory 1Gi -> 512Mi (deployment shop/cart, revision 5)"
    named = change_by_title(change(title), with_service=False)
    assert str(named) == "deploy “limits.memory 1Gi -> 512Mi” of cart"


def test_changes_that_were_ruled_out_are_named_with_the_reason() -> None:
    ruled_out = change("Deploy cart v1.7.0", found_as="change_ruled_out")
    full = shift("F2", "db", "cpu_percent", "cpu", 30, 97)
    told = diagnosis([("db", ["F2"])], WEB, full, ruled_out)
    assert texts(told, Section.CHECKED) == ["Deploy of cart v1.7.0 (it came later) was ruled out."]


def test_a_cause_that_is_not_sure_always_says_what_is_open() -> None:
    full = shift("F2", "db", "cpu_percent", "cpu", 30, 97)
    assert texts(diagnosis([("db", ["F2"])], WEB, full), Section.UNSURE) == [
        "Why db is out of CPU is not known: no change explains it."
    ]
    sure = diagnosis([("db", ["F2"])], WEB, full, confidence=0.95)
    assert texts(sure, Section.UNSURE) == []


def test_failed_scrapes_say_nothing_of_requests_unless_those_fail_too() -> None:
    scrapes = found(
        "F2", "db", kind="metric_shift", signal="scrape_availability",
        numbers={"baseline": 1.0, "incident": 0.0},
        details={"class": "availability", "direction": "down", "bad": True, "unit": "ratio"},
    )  # fmt: skip

    def doubts(*findings: Finding) -> list[str]:
        told = diagnosis([("db", ["F2"])], WEB, *findings)
        cause = told.causes[0].model_copy(update={"signal": "scrape_availability"})
        return texts(told.model_copy(update={"causes": (cause,)}), Section.UNSURE)

    assert doubts(scrapes) == [
        "A target of db that cannot be scraped may serve its requests all the same, and their "
        "metrics may be missing for the same reason."
    ]
    failing = found("F3", "db", **FAILS)
    assert not any("may serve" in text for text in doubts(scrapes, failing))


def test_the_service_that_alerted_is_never_left_out() -> None:
    pay = found("F1", "pay", **FAILS)
    told = diagnosis([("pay", ["F1"])], pay)
    assert any("No symptom of web itself" in text for text in texts(told, Section.HAPPENING))
    slow = shift("F3", "web", "latency_p99_ms", "latency", 100, 300)
    told = diagnosis([("pay", ["F1"])], pay, slow)
    assert any("web (3x slower)" in text for text in texts(told, Section.HAPPENING))


def test_an_early_move_of_another_service_is_not_the_onset() -> None:
    early, late = (datetime(2026, 3, 1, hour, 58, tzinfo=UTC) for hour in (9, 11))
    web = WEB.model_copy(update={"onset": late})
    other = found("F4", "cart", **FAILS).model_copy(update={"onset": early})
    told = diagnosis([("web", ["F1"])], web, other)
    impact = told.impact.model_copy(update={"since": early, "findings": ("F1", "F4")})
    assert began(told.model_copy(update={"impact": impact})) == late


LIVE = datetime(2026, 9, 1, 14, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "cause_onset", "blames_change", "expected"),
    [
        # Ten minutes before the change went live are within clocks and collection intervals.
        (-10, 2, True, -10),
        (-11, 2, True, 2),
        (-11, -12, True, -11),
        (-11, 2, False, -11),
        (None, 2, True, 2),
        (-11, None, True, -11),
    ],
)
def test_what_moved_long_before_the_blamed_change_is_not_its_effect(
    since: float | None, cause_onset: float | None, expected: float, *, blames_change: bool
) -> None:
    def at(minutes: float | None) -> datetime | None:
        return None if minutes is None else LIVE + timedelta(minutes=minutes)

    near = change("Deploy cart v1.7.0").model_copy(update={"onset": LIVE})
    told = diagnosis([("cart", [near.id])], near)
    blamed = {"onset": at(cause_onset), "change": change_named(near) if blames_change else None}
    cause = told.causes[0].model_copy(update=blamed)
    impact = told.impact.model_copy(update={"since": at(since), "findings": ()})
    assert began(told.model_copy(update={"causes": (cause,), "impact": impact})) == at(expected)


def test_a_place_is_said_only_where_the_answer_speaks_of_two() -> None:
    def placed(one: Finding, place: str) -> Finding:
        sentence = f"Error rate of {one.subject} in cluster {place} rose."
        series = {"labels": f'{{"cluster": "{place}"}}'}
        return one.model_copy(update={"sentence": sentence, "series": series})

    pay = found("F2", "pay", **FAILS)
    alike = diagnosis([("pay", ["F2"])], placed(WEB, "cluster-a"), placed(pay, "cluster-a"))
    assert not any(one.series for one in without_the_only_place(alike).findings)
    apart = diagnosis([("pay", ["F2"])], placed(WEB, "cluster-a"), placed(pay, "cluster-b"))
    assert all(one.series for one in without_the_only_place(apart).findings)


def test_a_change_near_a_suspect_is_told_of_though_it_is_not_blamed() -> None:
    near = change("Deploy cart v1.7.0").model_copy(
        update={"onset": datetime(2026, 9, 1, 14, 19, tzinfo=UTC)}
    )
    elsewhere = near.model_copy(update={"id": "F8", "subject": "search"})
    not_blamed = diagnosis([("cart", ["F1"])], WEB, near, elsewhere)
    sentence = (
        "Deploy of cart v1.7.0 came shortly before (14:19 UTC), and nothing but that points to it."
    )
    assert texts(not_blamed, Section.UNSURE)[-1:] == [sentence]
    cause = not_blamed.causes[0].model_copy(update={"change": "CE7"})
    blamed = not_blamed.model_copy(update={"causes": (cause,)})
    assert sentence not in texts(blamed, Section.UNSURE)


@pytest.mark.parametrize("witness", ["calls", "line", "none"])
@pytest.mark.parametrize(("confidence", "is_near"), [(0.15, True), (0.14, False)])
def test_the_caller_whose_calls_fail_may_be_the_cause_where_it_is_nearly_as_likely(
    witness: str, confidence: float, *, is_near: bool
) -> None:
    busy = shift("F2", "bank", "cpu_percent", "cpu", 30, 97)
    witnesses = {
        "calls": found("F3", "bank", kind="calls_into", details={"callers": ["web"], "lines": 9}),
        "line": line("F3", "web", "cannot reach bank", names="bank"),
        "none": line("F3", "web", "cannot reach it"),
    }
    told = diagnosis([("bank", ["F2"]), ("web", ["F1"])], WEB, busy, witnesses[witness])
    first, second = told.causes
    second = second.model_copy(update={"confidence": confidence})
    said = texts(told.model_copy(update={"causes": (first, second)}), Section.UNSURE)
    expected = is_near and witness != "none"
    assert any("It could also be web itself" in text for text in said) is expected
