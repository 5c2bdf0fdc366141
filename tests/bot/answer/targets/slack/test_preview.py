"""A message as people would see it."""

from __future__ import annotations

import io
import re

import pytest
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


def plain_text(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


def option(text: str) -> dict[str, object]:
    return {"text": plain_text(text), "value": text}


RADIO = {
    "type": "radio_buttons",
    "options": [option("Yes"), option("No")],
    "initial_option": option("No"),
}
RICH = {
    "type": "rich_text",
    "elements": [
        {
            "type": "rich_text_section",
            "elements": [
                {"type": "emoji", "name": "red_circle"},
                {"type": "emoji", "name": "mag"},
                {"type": "emoji", "name": "unknown"},
                {"type": "text", "text": "a<b", "style": {"bold": True}},
                {"type": "text", "text": "rm", "style": {"code": True}},
                {"type": "link", "url": "https://a.example/?a=1&b=2", "text": "page"},
            ],
        },
        {
            "type": "rich_text_list",
            "style": "bullet",
            "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "first"}]}
            ],
        },
        {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x = 1"}]},
    ],
}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "header", "text": plain_text("A & B")}, "<h2>A &amp; B</h2>"),
        (
            {"type": "section", "text": plain_text("a"), "accessory": {"type": "overflow"}},
            '<div class="section"><span>a</span><span class="button">⋯</span></div>',
        ),
        (
            {"type": "section", "text": plain_text("a")},
            '<div class="section"><span>a</span></div>',
        ),
        (
            {"type": "actions", "elements": [{"type": "button", "text": plain_text("Go")}]},
            '<div class="actions"><span class="button">Go</span></div>',
        ),
        (
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "*a* b"}]},
            '<div class="context"><div><b>a</b> b</div></div>',
        ),
        (
            {"type": "image", "slack_file": {"id": "F1"}, "alt_text": "a chart"},
            '<img alt="a chart" src="data:image/png;base64,cG5n">',
        ),
        (
            {"type": "image", "slack_file": {"id": "F2"}, "alt_text": "a chart"},
            '<div class="file">a chart</div>',
        ),
        (
            {
                "type": "input",
                "label": plain_text("Why"),
                "optional": True,
                "hint": plain_text("In a word"),
                "element": {
                    "type": "plain_text_input", "multiline": True, "initial_value": "<it>",
                },
            },
            '<div class="field"><b>Why <span>(optional)</span></b><div class="input tall">'
            '&lt;it&gt;</div><div class="hint">In a word</div></div>',
        ),
        (
            {
                "type": "input",
                "label": plain_text("Why"),
                "element": {"type": "plain_text_input"},
            },
            '<div class="field"><b>Why</b><div class="input"></div></div>',
        ),
        (
            {"type": "input", "label": plain_text("Is it?"), "element": RADIO},
            '<div class="field"><b>Is it?</b><div class="radio"><i></i>Yes</div>'
            '<div class="radio on"><i></i>No</div></div>',
        ),
        (
            {
                "type": "input",
                "label": plain_text("Who"),
                "element": {"type": "static_select", "placeholder": plain_text("Choose")},
            },
            '<div class="field"><b>Who</b><div class="input">Choose &#9662;</div></div>',
        ),
        (
            RICH,
            '<div class="rich"><span class="dot" style="background:#dd2e44"></span>⌕:unknown:'
            '<b>a&lt;b</b><code>rm</code><a href="https://a.example/?a=1&amp;b=2">page</a>'
            "<ul><li>first</li></ul><pre>x = 1</pre></div>",
        ),
        ({"type": "file"}, ""),
    ],
)  # fmt: skip
def test_each_kind_of_block_is_shown_as_slack_shows_it(
    block: dict[str, object], shown: str
) -> None:
    message = SlackMessage("", (block,))
    page = to_html(message, {"F1": b"png"}, time="10:21")
    assert page.endswith(f'<span class="time">10:21</span>{shown}</div></div></body></html>')
    home = view_to_html({"type": "home", "blocks": [block]})
    if block["type"] != "image":
        assert f'<div class="home">{shown}</div>' in home


def test_a_page_is_light_or_dark() -> None:
    light, dark = (to_html(a_message(), dark=is_dark) for is_dark in (False, True))
    assert "--back:#fff" in light
    assert "--back:#1a1d21" in dark
    form = {"type": "home", "blocks": []}
    assert "--back:#fff" in view_to_html(form)
    assert "--back:#1a1d21" in view_to_html(form, dark=True)
