from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faultline.bot.answer.writer.plain_text import clipped, neutral, rendered_part
from tests.bot.answer.writer.diagnoses import HOSTILE

TEXTS = st.text(max_size=200) | st.text(alphabet="<>@!#*_~`:/[]()&;.wW |-+ax1\n", max_size=40)


@given(TEXTS)
@example(HOSTILE)
@example("a:b:c: :warning: ~~x~~ __init__ &lt;b&gt; # x")
def test_nothing_of_a_neutral_text_renders(text: str) -> None:
    shown = neutral(text)
    assert rendered_part(shown) is None
    assert neutral(shown) == shown


@given(TEXTS, TEXTS)
def test_harmless_parts_make_a_harmless_sentence(first: str, second: str) -> None:
    assert rendered_part(f"Likely: {neutral(first)}. {neutral(second)}.") is None
    assert rendered_part(f'{neutral(first)}; "{neutral(second)}" ({neutral(first)})') is None


@pytest.mark.parametrize(
    "text",
    [
        "checkoutservice http_server_duration_p99_ms rose from 213.7 to 3828 (17.9x).",
        "PetSearch_AWS::ECS::Fargate latency < 800 ms, ~3 s before; db@eu-west-1 is at 100 % "
        "(-81.8 %).",
        "rank 3 waits 38 % of each step: all_reduce (stream 7), loss -> nan",
    ],
)
def test_honest_text_is_left_as_it_is(text: str) -> None:
    assert neutral(text) == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ask @channel", "a mention"),
        ("ask <@U123>", "a mention"),
        ("<!here> look", "a mention"),
        ("in <#C123>", "a mention"),
        ("see https://evil.example", "a link"),
        ("see www.evil.example", "a link"),
        ("[docs](x)", "a link"),
        ("javascript:alert(1)", "a link"),
        ("it is *urgent*", "mark-up"),
        ("run `ls`", "mark-up"),
        ("<b>x</b>", "mark-up"),
        ("# Heading", "mark-up"),
        (":fire: now", "mark-up"),
        ("a\u202eb", "a control character"),
    ],
)
def test_what_would_render_or_notify_is_named(text: str, what: str) -> None:
    assert rendered_part(text) == what


def test_only_the_links_given_are_allowed() -> None:
    links = ("https://app.datadoghq.com/monitors/1",)
    assert rendered_part("see https://app.datadoghq.com/monitors/1.", links) is None
    assert rendered_part("see https://app.datadoghq.com/monitors/12", links) == "a link"
    assert rendered_part("see https://app.datadoghq.com.evil.example/monitors/1", links) == "a link"


def test_a_template_keeps_its_place_holders_readable() -> None:
    assert neutral("GET <*> took <num>ms") == "GET … took ‹num›ms"


def test_text_is_cut_between_words() -> None:
    assert clipped("rose from 213.7 to 3828", 20) == "rose from 213.7 to…"
    assert clipped("short", 20) == "short"


def test_a_name_from_code_can_be_copied() -> None:
    assert (
        neutral("call torch._dynamo.mark_dynamic there") == "call torch._dynamo.mark_dynamic there"
    )
    assert rendered_part("call torch._dynamo.mark_dynamic there") is None
