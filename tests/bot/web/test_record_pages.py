"""The pages about the bot itself: how often it was right, and how it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.shares import Share
from faultline.bot.intake.moving import IntakeHealth
from faultline.bot.intake.spool import Spool
from faultline.bot.intake.spool_records import TakenAlert
from faultline.bot.operating.telemetry.readiness import Readiness
from faultline.bot.policy.values import Arrival, Delivery
from faultline.bot.store.listing import Labels
from faultline.bot.store.passed_over import count_passed_over
from faultline.bot.store.reports import Condition, JudgedAnswer, read_condition
from faultline.bot.web.accuracy_view import accuracy_of
from faultline.bot.web.record_pages import condition_lines, intake_lines
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Site

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def judged(
    n: int, *, right: bool, confidence: float = 0.8, verdict: str = "cause_found", days: int = 0
) -> JudgedAnswer:
    at = NOW - timedelta(days=days)
    return JudgedAnswer(
        f"i{n}", at, "t", "cart", "datadog", verdict, confidence, "h", right, "", at
    )


def test_an_interval_is_wilsons() -> None:
    share = Share(
        8, 10
    )  # published: Newcombe 1998, Statistics in Medicine 17: method 3 for 8 of 10 gives these ends
    assert (round(share.low, 3), round(share.high, 3)) == (0.490, 0.943)
    assert (Share(0, 0).low, Share(0, 0).high) == (0.0, 1.0)
    assert Share(0, 10).low == 0.0
    assert round(Share(10, 10).high, 9) == 1.0


def test_answers_are_held_against_what_they_promised() -> None:
    answers = [judged(n, right=n < 3, confidence=0.95) for n in range(10)]
    answers += [judged(20 + n, right=n < 8, confidence=0.75) for n in range(10)]
    record = accuracy_of(answers)
    assert [(b.label, b.share.right, b.share.of, b.too_sure) for b in record.buckets] == [
        ("70 to 80 %", 8, 10, False),
        ("90 to 100 %", 3, 10, True),
    ]
    assert (record.all.right, record.all.of, round(record.promised, 2)) == (11, 20, 0.85)
    assert not record.enough


def test_answers_that_name_no_cause_promise_nothing() -> None:
    record = accuracy_of(
        [judged(1, right=True), judged(2, right=False, verdict="insufficient_evidence")]
    )
    assert (record.all.right, record.all.of, record.without_answer) == (1, 1, 1)
    assert [a.id for a in record.wrong] == ["i2"]


@pytest.mark.parametrize(("days", "names"), [(21, 4), (400, 14)])
def test_periods_are_weeks_or_months_without_holes(days: int, names: int) -> None:
    record = accuracy_of([judged(1, right=True), judged(2, right=False, days=days)])
    assert len(record.periods) in (names, names - 1, names + 1)
    assert sum(p.share.of for p in record.periods) == 2


def test_the_page_says_so_when_nobody_judged_or_too_few(
    site: Site, browser: httpx.Client, sample: str
) -> None:
    assert "Nobody has judged an answer yet" in browser.get("/accuracy").text
    Labels(site.store.engine).write(sample, right=False, cause="<b>the moon</b>")
    page = browser.get("/accuracy").text
    assert "1 judged answer is too few to tell" in page
    assert "The cause was: &lt;b&gt;the moon&lt;/b&gt;" in page
    assert f'href="/investigations/{sample}"' in page
    assert "too few to say" in page


def test_health_tells_what_connectors_and_places_said_last(
    site: Site, browser: httpx.Client
) -> None:
    for n, text in enumerate(
        ("datadog: 4 items", "datadog: 0 items, 1 missing: HTTP 403, the key lacks apm_read")
    ):
        id_ = site.investigate(ALERT.model_copy(update={"title": f"t{n}"}))
        site.store.add_progress(id_, "collect datadog", text, key="c")
        site.store.add_progress(id_, "reply slack", "answered in slack", key="r")
    page = browser.get("/health").text
    assert "HTTP 403, the key lacks apm_read" in page
    assert "1 of 2" in page
    assert "2 waiting" in page
    said = read_condition(site.store.engine).connectors
    assert [(s.name, s.ok, s.requests, s.failed) for s in said] == [("datadog", False, 2, 1)]
    assert said[0].last_ok is not None


def test_health_shows_slack_messages_that_were_no_alert(site: Site, browser: httpx.Client) -> None:
    assert "Slack messages without an alert" not in browser.get("/health").text
    for text in ("Lunch?", "<b>Lunch</b> with token=xoxb-1234567890-abcdefghijkl"):
        count_passed_over(site.store.engine, "C1", "B0X", "Lunchbot", "chat", "text", text)
    page = browser.get("/health").text
    assert "Slack messages without an alert" in page
    row = page.partition("Lunchbot")[2].partition("</tr>")[0]
    assert ">2<" in row
    assert "<td>chat</td>" in row
    assert "&lt;b&gt;Lunch&lt;/b&gt; with token=" in row
    assert "abcdefghijkl" not in page


def test_alerts_that_wait_for_long_are_a_fault() -> None:
    waiting = Condition(
        {"accepted": 3}, NOW - timedelta(minutes=9), NOW - timedelta(minutes=9), (), (), ()
    )
    lines = {line.name: line for line in condition_lines(waiting, NOW)}
    assert (lines["Queue"].tone, lines["Worker"].tone) == ("fault", "fault")
    assert "3 waiting, the oldest for 9 min" in lines["Queue"].text
    idle = Condition({"done": 3}, None, NOW - timedelta(hours=9), (1.0,), (), ())
    assert {line.tone for line in condition_lines(idle, NOW)} == {"well"}


def test_the_health_page_says_what_waits_in_the_spool_and_whether_it_takes_more(
    tmp_path: Path, site: Site
) -> None:
    now = datetime.now(UTC)
    health = IntakeHealth(Spool(tmp_path / "spool", max_alerts=1))
    readiness = Readiness(site.store, health)
    assert [line.text for line in intake_lines(readiness, now)] == ["no alert waits for the store"]
    alert = Alert(source="pagerduty", title="slow", started_at=now)
    waits = TakenAlert(Arrival(alert, Delivery("pagerduty", "1", now)), now - timedelta(minutes=3))
    health.spool.append([waits])
    [line] = intake_lines(readiness, now)
    assert line.text.startswith("1 alerts wait for the store, the oldest for 3")
    health.spool.append([waits])
    [line] = intake_lines(readiness, now)
    assert line.tone == "fault"
    assert line.text.startswith("takes no alerts: ")
