"""Values as a person reads them, on each side of where their form changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from faultline.bot.web import text

ALERT = datetime(2026, 3, 2, 11, 50, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (-0.26, "0.3 s"),
        (9.94, "9.9 s"),
        (10.4, "10 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_length_of_time_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-60, "under 1 min"),
        (59, "under 1 min"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (86_399, "23 h"),
        (86_400, "1 d"),
    ],
)
def test_an_age_has_its_largest_unit(seconds: float, shown: str) -> None:
    assert text.age(ALERT, ALERT + timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (999.4, "999 µs"),
        (1000, "1 ms"),
        (12_340, "12.3 ms"),
        (999_000, "999 ms"),
        (1e6, "1 s"),
        (5.99e7, "59.9 s"),
        (6e7, "1 min"),
    ],
)
def test_a_short_length_of_time(microseconds: float, shown: str) -> None:
    assert text.us(microseconds) == shown


@pytest.mark.parametrize(
    ("seconds", "signed", "in_words"),
    [
        (0.9, "0 s", "with the alert"),
        (-0.9, "0 s", "with the alert"),
        (1, "+1 s", "1 s after the alert"),
        (-1, "−1 s", "1 s before the alert"),
        (-252.4, "−4 min 12 s", "4 min 12 s before the alert"),
    ],
)
def test_a_distance_from_the_alert(seconds: float, signed: str, in_words: str) -> None:
    moment = ALERT + timedelta(seconds=seconds)
    assert text.offset(moment, ALERT) == signed
    assert text.from_alert(moment, ALERT) == in_words


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (12_340, "12.3 kB"),
        (1_500_000, "1.5 MB"),
        (999_000_000, "999 MB"),
        (5_000_000_000_000, "5e+03 GB"),
    ],
)
def test_a_number_of_bytes(count: int | None, shown: str) -> None:
    assert text.size(count) == shown


def test_moments_are_shown_in_utc() -> None:
    moment = ALERT.astimezone(timezone(timedelta(hours=-13)))
    assert text.clock(moment) == "11:50:04"
    assert text.day(moment) == "Mon 2 Mar 2026"
    assert text.stamp(moment) == "2 Mar 2026, 11:50:04 UTC"
    assert text.day_and_minute(moment) == "2 Mar, 11:50 UTC"


def test_a_share_and_an_identifier_in_words() -> None:
    assert (text.percent(0.084), text.percent(1)) == ("8 %", "100 %")
    assert text.words("_metric_shift") == "metric shift"
    assert text.kind_words("no_such_kind") == "no such kind"


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        (None, ""),
        (7, 7),
        ("a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"),
        ("a\u202eb", "a[U+202E]b"),
        ("a\x00\x01\x02b", "a[U+0000 and 2 more]b"),
        ("x" * 20_000, "x" * 20_000),
        ("x" * 20_003, "x" * 20_000 + "… (3 characters left out)"),
    ],
)
def test_what_is_hidden_in_foreign_text_is_shown(foreign: object, shown: object) -> None:
    assert text.visible(foreign) == shown


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://a.example/x?y=1#z", True),
        ("http://10.0.0.1:3000", True),
        ("https://a.example/" + "x" * 4_078, True),
        ("https://a.example/" + "x" * 4_079, False),
        ("", False),
        (None, False),
        ("ftp://a.example", False),
        ("javascript:alert(1)", False),
        ("https:///path", False),
        ("https://a.example\\b", False),
        ("https://a.example/ b", False),
        ("https://a.example/\u200b", False),
        ("https://[::1", False),
    ],
)
def test_only_an_address_of_the_web_becomes_a_link(url: str | None, is_safe: bool) -> None:
    assert text.safe_href(url) == (url if is_safe else None)


@pytest.mark.parametrize(
    ("sentence", "page"),
    [
        ("run `ls <x>` for 5 s", "run <code>ls &lt;x&gt;</code> for 5\u00a0s"),
        ("one ` alone", "one ` alone"),
        ("5 steps, 3 %", "5 steps, 3\u00a0%"),
    ],
)
def test_code_between_backticks_stands_out(sentence: str, page: str) -> None:
    assert text.with_code(sentence) == page
