"""Commands and questions are understood as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.vocabulary import Window
from faultline.bot.intake.questions.commands import Command, command_in, findings_in, is_courtesy
from faultline.bot.intake.questions.is_question import is_question
from faultline.bot.intake.questions.request_kind import RequestKind, understand
from faultline.bot.intake.questions.subjects import (
    LONGEST,
    QuestionSpan,
    asks_to_include,
    days_ago,
    span_in,
    subject_of,
    window_of,
)
from faultline.bot.intake.questions.words import nearest, words


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("investigate checkout errors", Command("investigate", "checkout errors")),
        ("hey please investgate: checkout\n5xx", Command("investigate", "checkout\n5xx")),
        ("investigated that", None),
        ("status", Command("status")),
        ("Stauts?", Command("status")),
        ("handover", Command("handover")),
        ("handovr: 24h payments please", Command("handover", "24h payments please")),
        ("handover notes for the next shift", None),
        ("explain F3", Command("explain", "F3")),
        ("explian f-03 please", Command("explain", "F3")),
        ("F12", Command("explain", "F12")),
        ("explain why checkout is slow", None),
        ("trace s3://bucket/run 7", Command("trace", "s3://bucket/run")),
        ("trace s3://bucket/run.", Command("trace", "s3://bucket/run")),
        ("trace /etc/passwd", Command("trace", "/etc/passwd")),
        ("trace", Command("trace")),
        ("trace of checkout?", None),
        ("be quiet please", Command("quiet")),
        ("mute this alert", None),
        ("status update", None),
        ("status of checkout?", None),
        ("何が起きていますか", None),
        ("lisen", Command("listen")),
        ("help", Command("help")),
        ("help me understand why this happened", None),
        ("", Command("help")),
        ("?", Command("help")),
        ("\u0000\u202e", Command("help")),
        ("what changed?", None),
    ],
)
def test_commands_are_recognised_with_typing_errors(text: str, command: Command | None) -> None:
    assert command_in(text) == command


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("why this cause?", RequestKind.WHY),
        ("How do you know?", RequestKind.WHY),
        ("what evidence is there", RequestKind.WHY),
        ("what is the evidence against it?", RequestKind.AGAINST),
        ("are you sure?", RequestKind.AGAINST),
        ("what changed?", RequestKind.CHANGES),
        ("which depolys?", RequestKind.CHANGES),
        ("who deployed this", RequestKind.CHANGES),
        ("which deploys happened before it?", RequestKind.CHANGES),
        ("who is affected?", RequestKind.IMPACT),
        ("what's the blast radius", RequestKind.IMPACT),
        ("how many requests fail?", RequestKind.IMPACT),
        ("since when?", RequestKind.SINCE),
        ("when did it start", RequestKind.SINCE),
        ("is it still going on?", RequestKind.STILL),
        ("has it recovered", RequestKind.STILL),
        ("isn't it over?", RequestKind.STILL),
        ("show logs of checkout", RequestKind.LOGS),
        ("any exceptions?", RequestKind.LOGS),
        ("slowest calls", RequestKind.SLOW),
        ("where is the time spent", RequestKind.SLOW),
        ("show F3", RequestKind.EXPLAIN),
        ("what is missing?", RequestKind.MISSING),
        ("what could you not see", RequestKind.MISSING),
        ("what did you check?", RequestKind.CHECKED),
        ("what else could it be?", RequestKind.SUSPECTS),
        ("any other causes?", RequestKind.SUSPECTS),
        ("what next?", RequestKind.NEXT),
        ("how do I fix this?", RequestKind.NEXT),
        ("should we roll back?", RequestKind.HYPOTHETICAL),
        ("did this happen before?", RequestKind.BEFORE),
        ("have we seen this before", RequestKind.BEFORE),
        ("what happened first?", RequestKind.TIMELINE),
        ("what happened?", RequestKind.CAUSE),
        ("tl;dr", RequestKind.CAUSE),
        ("is it the database?", RequestKind.UNKNOWN),
        ("did ada already roll back", RequestKind.STILL),
        ("how do i roll back", RequestKind.ACTION),
        ("if i roll back will checkout recover", RequestKind.HYPOTHETICAL),
        ("when will it be fixed", RequestKind.HYPOTHETICAL),
        ("what should we monitor after", RequestKind.NEXT),
        ("should i wake up the payments team", RequestKind.OWNERSHIP),
        ("write an email to customers", RequestKind.STATUS_UPDATE),
        ("what's the current version of checkout", RequestKind.DEPLOYED),
        ("what time did ada deploy", RequestKind.CHANGES),
        ("was there an incident last week", RequestKind.BEFORE),
        ("same as last tuesday?", RequestKind.COMPARE),
        ("false alarm?", RequestKind.CAUSE),
        ("link to grafana", RequestKind.CHECKED),
        ("who calls payments", RequestKind.CALLS),
        ("not payments, it's cart", RequestKind.FEEDBACK),
        ("was it the cart deploy?", RequestKind.CHANGES),
        ("are you a bot", RequestKind.HELP),
        ("status update", RequestKind.STATUS_UPDATE),
        ("order pizza", RequestKind.UNKNOWN),
        ("lunch?", RequestKind.UNKNOWN),
        ("", RequestKind.UNKNOWN),
    ],
)
def test_questions_are_of_the_kind_that_their_words_say(text: str, kind: RequestKind) -> None:
    assert understand(text).kind is kind


QUESTIONS = (
    "why this cause?",
    "what changed?",
    "who is affected",
    "is it the database?",
    "what about payments?",
    "what about the last 6 hours?",
    "check payments too",
    "show me the errors in payments",
    "did this happen before?",
)
CHATTER = (
    "I'll take a look",
    "can someone restart the pod?",
    "anyone looking?",
    "when will it be fixed?",
    "deploy is done",
    "errors are gone",
    "ok let me check the logs",
    "who is on call?",
    "what's for dinner?",
    "should we roll back?",
    "are you sure?",
    "<@U0COLLEAGUE> what changed?",
    "```what changed?```",
    "@here what changed?",
    "what changed? " + "and then " * 60,
    "",
    "?",
)


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_in_the_thread_needs_no_mention(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", CHATTER)
def test_people_who_talk_to_each_other_are_left_alone(text: str) -> None:
    assert not is_question(text)


def test_you_is_us_for_somebody_who_is_talking_with_us() -> None:
    assert not is_question("are you sure?")
    assert is_question("are you sure?", talking=True)


@pytest.mark.parametrize("text", ["thanks!", "Thank you", "great job", "cheers"])
def test_courtesies_want_no_answer(text: str) -> None:
    assert is_courtesy(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("what about the last 6 hours?", QuestionSpan(timedelta(hours=6))),
        ("past 2h", QuestionSpan(timedelta(hours=2))),
        ("over the last day", QuestionSpan(timedelta(days=1))),
        ("last few minutes", QuestionSpan(timedelta(minutes=3))),
        ("and since 02:30?", QuestionSpan(since=(2, 30))),
        ("a wider window please", QuestionSpan()),
        ("last 0 hours", None),
        ("what changed?", None),
    ],
)
def test_a_longer_time_is_read(text: str, span: QuestionSpan | None) -> None:
    assert span_in(text) == span


def test_the_window_ends_now_and_has_bounds() -> None:
    end = datetime(2026, 11, 20, 3, 6, tzinfo=UTC)
    incident, now = Window(start=end - timedelta(minutes=10), end=end), end + timedelta(minutes=5)
    assert window_of(QuestionSpan(timedelta(hours=6)), incident, now) == Window(
        start=now - timedelta(hours=6), end=now
    )
    assert (
        window_of(QuestionSpan(timedelta(days=400)), incident, now).seconds
        == LONGEST.total_seconds()
    )
    assert window_of(QuestionSpan(since=(2, 30)), incident, now).start == end.replace(
        hour=2, minute=30
    )
    assert window_of(QuestionSpan(since=(23, 0)), incident, now).start == end.replace(
        day=19, hour=23, minute=0
    )
    assert window_of(QuestionSpan(), incident, now) == Window(
        start=end - timedelta(minutes=30), end=end
    )
    long_ago = now + timedelta(days=60)
    assert window_of(QuestionSpan(timedelta(hours=1)), incident, long_ago).end == end


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("compare with yesterday", 1),
        ("compare", 1),
        ("same as last tuesday?", 3),
        ("is this normal for a friday?", 7),
        ("a week ago", 7),
        ("compare latency to an hour ago", 0),
    ],
)
def test_a_comparison_says_how_many_days_earlier(text: str, days: int) -> None:
    assert days_ago(text, datetime(2026, 11, 20, 14, 25, tzinfo=UTC)) == days


def test_more_services_are_asked_for_by_too_and_also() -> None:
    assert asks_to_include("check payments too")
    assert asks_to_include("also look at cart")
    assert not asks_to_include("did you check payments?")


def test_a_subject_is_a_name_of_the_case_first_then_a_kind_of_thing() -> None:
    names = ("checkout", "checkout-worker", "pretrain-ranker/rank 2", "rank 2")
    assert subject_of("is checkout-worker ok?", names).names == ("checkout-worker",)  # type: ignore[union-attr]
    assert "rank 2" in subject_of("what about rank 2?", names).names  # type: ignore[union-attr]
    assert subject_of("could it be postgres?", names).thing == "database"  # type: ignore[union-attr]
    assert subject_of("what about chekout-worker?", names).names == ("checkout-worker",)  # type: ignore[union-attr]
    assert subject_of("what about payments?", names).is_service  # type: ignore[union-attr]
    assert subject_of("why?", names) is None


def test_a_misspelt_word_is_the_one_that_it_is_near_to() -> None:
    known = ("status", "investigate", "statue")
    assert nearest("stauts", known) == "status"
    assert nearest("investgate", known) == "investigate"
    assert nearest("statu", known) is None, "two are as near"
    assert nearest("", known) is None


def test_long_hostile_text_takes_no_time() -> None:
    for text in (
        "what about " * 50_000,
        "f" * 1_000_000,
        "F" + "9" * 100_000,
        "last " * 100_000,
        "'" * 500_000,
    ):
        assert len(words(text)) <= 200
        understand(text)
        command_in(text)
        is_question(text)
        subject_of(text, ("checkout",))
        span_in(text[:2_000])


def test_the_end_of_another_name_is_no_finding() -> None:
    assert findings_in("why, 20261123-080247-f94097") == ()
    assert findings_in("is rack-f3 to blame, as F2 and f-12 say?") == ("F2", "F12")
