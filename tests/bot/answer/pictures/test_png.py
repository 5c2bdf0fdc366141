"""The picture in chat: the page's drawings, as PNG, readable on a phone."""

from __future__ import annotations

import io
import re
from pathlib import Path

from PIL import Image, ImageFont

from faultline.bot.answer.pictures import png
from faultline.bot.answer.pictures.map_svg import map_svg
from faultline.bot.answer.pictures.png import EDGE, FONTS, SCALE, STYLE, WIDTH, answer_png, png_of
from faultline.bot.answer.pictures.service_map import incident_map
from faultline.bot.answer.pictures.svg import fitted, picture, text, words_width, wrapped
from tests.bot.answer.pictures.incidents import SHOP, a_case, diagnosis, view_of

ON_A_PHONE = 360
"""How wide Slack shows a picture there, in its own pixels."""
READABLE = 11


def opened(drawn: bytes) -> Image.Image:
    return Image.open(io.BytesIO(drawn)).convert("RGB")


def test_the_picture_is_sharp_and_its_type_is_readable_on_a_phone(tmp_path: Path) -> None:
    drawn = answer_png(a_case(tmp_path), diagnosis(), SHOP)
    assert drawn is not None
    shown = opened(drawn)
    whole = WIDTH + 2 * EDGE
    assert shown.width == whole * SCALE
    style = STYLE.read_text(encoding="utf-8")
    least = min(float(size) for size in re.findall(r"font-size: ([\d.]+)px; fill", style))
    assert least * ON_A_PHONE / whole >= READABLE
    assert shown.getpixel((3, 3)) == (255, 255, 255)
    colours = {colour for _, colour in shown.getcolors(1 << 24) or ()}
    # Where it began and who is affected, as in pictures.css.
    assert {(0xB8, 0x4A, 0x00), (0x0A, 0x63, 0xA5)} <= colours


def test_a_case_without_anything_to_draw_has_no_picture(tmp_path: Path) -> None:
    empty = diagnosis(findings=(), causes=())
    assert answer_png(a_case(tmp_path), empty) is None


def test_the_style_knows_every_class_of_the_drawings_and_no_variables() -> None:
    found = incident_map(view_of(), SHOP)
    assert found is not None
    style = png._light_style()
    assert "var(" not in style
    assert "@media" not in style
    classes = {
        name
        for names in re.findall('class="([^"]+)"', map_svg(found, 640))
        for name in names.split()
    }
    for name in classes - {"pic", "fault", "box", "other", "affected", "state", "place"}:
        assert f".{name}" in style, name


def test_words_are_drawn_without_the_fonts_of_the_machine() -> None:
    word = opened(png_of([picture(366, 40, "", text(10, 20, "payments"), class_="pic")]))
    nothing = opened(png_of([picture(366, 40, "", class_="pic")]))
    assert word.tobytes() != nothing.tobytes()


def test_no_word_is_wider_than_reckoned() -> None:
    names = ("payments: p99 latency", "WWWWMMMM@@%%", "Order-Service_v2.3.1", "iiilllfff..,,'")
    for path, bold in zip(FONTS, (False, True), strict=True):
        font = ImageFont.truetype(path, 120)
        for name in names:
            assert font.getlength(name) / 10 <= words_width(name, 12, bold=bold)


def test_names_are_cut_in_their_middle() -> None:
    cut = fitted("checkout-payments-service-eu-west-1-canary", 120, 13)
    assert cut.startswith("check")
    assert cut.endswith("nary")
    assert words_width(cut, 13) <= 120
    assert fitted("x", 1, 13) == "…"


def test_long_names_have_two_lines_and_part_at_a_joint() -> None:
    assert wrapped("cart", 100, 13) == ("cart",)
    assert wrapped("address-query-service", 110, 13) == ("address-query-", "service")
    assert wrapped("recommendationservice", 125, 13) == ("recommendation", "service")
    assert "".join(wrapped("recommendations", 80, 13)) == "recommendations"
    assert "…" in "".join(wrapped("x" * 500, 80, 13))
