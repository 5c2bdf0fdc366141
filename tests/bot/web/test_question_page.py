"""Questions in the field of an answer's page: answered from the stored case, and nothing else
comes of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from faultline.bot.runtime.throttle import CallRate
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.visitors import AuditFilter, AuditLog
from faultline.bot.web import question_page
from faultline.bot.web.question_page import LONGEST, PER_WINDOW, WINDOW_S
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Site, form_of

Ask = Callable[[str], httpx.Response]


@pytest.fixture
def ask(browser: httpx.Client, sample: str) -> Ask:
    """Sends a question in the form of the sample's page."""
    home = f"/investigations/{sample}"
    form = form_of(browser, home)

    def send(question: str) -> httpx.Response:
        return browser.post(f"{home}/question", data={**form, "question": question})

    return send


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("why?", "Its deploy three minutes earlier set pool_size from 50 to 5"),
        ("what changed?", "v412"),
        ("who is affected?", "checkout"),
        ("graph the p99 latency of checkout", "/findings/F2"),
        ("show logs of payment", "connection pool exhausted"),
        ("is it still happening?", "where my data ends"),
        ("compare with last month", "does not hold that time"),
        ("who is on call?", "on call"),
        ("what about the last 6 hours?", "starts nothing"),
        ("it was the cart deploy", "Nothing was recorded"),
        ("write a postmortem", "/export/postmortem.md"),
        ("roll back payment", "<code>kubectl rollout undo deployment/payment</code>"),
        ("explain F3", "412 new error lines"),
        ("help", "from what this investigation stored"),
        ("wie wird das Wetter?", "I can&#39;t answer that"),
    ],
)
def test_a_question_is_answered_from_the_case(ask: Ask, question: str, said: str) -> None:
    answer = ask(question)
    assert answer.status_code == 200
    assert said in answer.text.replace("\u00a0", " ")
    assert "in Slack" not in answer.text


def test_the_answer_leads_back_and_takes_the_next_question(
    ask: Ask, browser: httpx.Client, sample: str
) -> None:
    home = f"/investigations/{sample}"
    page, answer = browser.get(home).text, ask("<b>why</b>?").text
    for one in (page, answer):
        assert f'action="{home}/question"' in one
        assert '<label for="question">' in one
    assert "<h1>&lt;b&gt;why&lt;/b&gt;?</h1>" in answer
    assert f'<a href="{home}">' in answer
    assert f'href="{home}#F' in answer


def test_nothing_is_started_and_nothing_recorded(ask: Ask, site: Site, sample: str) -> None:
    before = site.store.progress(sample)
    for question in ("it was the cart deploy", "check ads too", "you are wrong", "run it again"):
        assert ask(question).status_code == 200
    assert Labels(site.store.engine).get(sample) is None
    assert FollowUps(site.store.engine).started_from(sample) == []
    assert site.store.progress(sample) == before
    assert site.store.count() == 1


def test_what_is_no_question_is_refused_in_one_line(
    ask: Ask, browser: httpx.Client, site: Site, sample: str
) -> None:
    for given in ("", " \n ", "x" * (LONGEST + 1)):
        refused = ask(given)
        assert refused.status_code == 400
        assert f"at most {LONGEST} characters" in refused.text
    running = site.investigate(ALERT.model_copy(update={"title": "another", "service": "b"}))
    form = form_of(browser, f"/investigations/{sample}")
    early = browser.post(f"/investigations/{running}/question", data={**form, "question": "why"})
    assert early.status_code == 409
    assert "/question" not in browser.get(f"/investigations/{running}").text
    nobody = browser.post("/investigations/none/question", data={**form, "question": "why"})
    assert nobody.status_code == 404


def test_a_case_that_cannot_be_read_is_one_line(ask: Ask, site: Site, sample: str) -> None:
    (site.cases / sample / "report.json").write_text("{")
    answer = ask("why?")
    assert answer.status_code == 422
    assert "report.json" in answer.text


def test_a_question_needs_the_forms_own_value_and_is_in_the_audit(
    ask: Ask, browser: httpx.Client, site: Site, sample: str
) -> None:
    path = f"/investigations/{sample}/question"
    assert browser.post(path, data={"question": "why?"}).status_code == 403
    assert ask("why?").status_code == 200
    kept = AuditLog(site.store.engine, retention=timedelta(days=1)).read(
        AuditFilter(action="asked")
    )
    assert [line.status for line in kept] == [200]
    assert "why" not in str(kept)


def test_a_visitor_asks_so_often_and_no_more(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_page, "PER_WINDOW", 2)
    assert [ask("why?").status_code for _ in range(3)] == [200, 200, 429]
    assert "Ask again in" in ask("why?").text


def test_each_visitor_has_an_own_rate_which_comes_back() -> None:
    now = 0.0
    rate = CallRate(WINDOW_S, lambda: now)
    assert {rate.wait_s("ann", PER_WINDOW) for _ in range(PER_WINDOW)} == {0}
    assert rate.wait_s("ann", PER_WINDOW) > WINDOW_S - 1
    assert rate.wait_s("bob", PER_WINDOW) == 0
    now = WINDOW_S
    assert rate.wait_s("ann", PER_WINDOW) == 0
