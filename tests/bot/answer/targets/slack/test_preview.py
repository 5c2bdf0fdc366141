"""A message as people would see it."""

from __future__ import annotations

import io
import re

from rich.console import Console

from faultline.bot.answer.targets.slack.message import SlackMessage, final_message
from faultline.bot.answer.targets.slack.pictures import to_html, view_to_html
from faultline.bot.answer.targets.slack.preview import to_terminal
from faultline.bot.answer.view import answer_view
from tests.bot.answer.targets.answers import (
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_investigation,
    some_evidence,
)


def a_message(headline: str = "payments v2 breaks checkout") -> SlackMessage:
    return final_message(
        an_investigation(),
        answer_view(
            an_investigation().alert,
            a_diagnosis(),
            a_report(headline=headline),
            gaps=[a_gap()],
            evidence=some_evidence(),
        ),
        PAGE,
        "F000000001",
    )


def printed(message: SlackMessage) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(to_terminal(message))
    return out.getvalue()


def test_the_terminal_shows_every_line_of_the_message() -> None:
    text = printed(a_message())
    for said in (
        "Likely cause",
        "payments v2 breaks checkout",
        "Do next  Roll back v2",
        "• The error ratio",
        "[chart]",
        "41 s",
    ):
        assert said in text


def test_text_with_rich_markup_is_shown_as_it_is() -> None:
    assert "[red]boo[/red]" in printed(a_message("[red]boo[/red]"))


def test_the_page_shows_the_chart_and_needs_nothing_from_outside() -> None:
    page = to_html(a_message(), {"F000000001": b"png"}, time="10:21")
    assert 'src="data:image/png;base64,cG5n"' in page
    assert f'href="{PAGE}#F2"' in page
    assert not re.search(r'(src|href)="(?!data:|https://)', page)
    assert "<script" not in page


def test_foreign_text_stays_text_on_the_page() -> None:
    page = to_html(a_message('<script>alert(1)</script>"><img src=x>'))
    assert "<script" not in page
    assert "<img src=x" not in page


def test_a_message_of_text_alone_is_shown_too() -> None:
    message = SlackMessage("a &lt; b", ())
    assert "a < b" in printed(message)
    assert "a &lt; b" in to_html(message)


def test_a_form_shows_the_buttons_that_it_has_and_a_home_tab_none() -> None:
    words = {kind: {"type": "plain_text", "text": kind.title()} for kind in ("title", "close")}
    form = {"type": "modal", "blocks": [], **words}
    page = view_to_html(form)
    assert '<span class="button">Close</span>' in page
    assert "button go" not in page
    submit = {"type": "plain_text", "text": "Send & go"}
    assert '<span class="button go">Send &amp; go</span>' in view_to_html(
        {**form, "submit": submit}
    )
    home = view_to_html({**form, "type": "home", "submit": submit})
    assert '<div class="tabs">' in home
    assert 'class="button' not in home
