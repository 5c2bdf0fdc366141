"""SVG as text: elements, escaping, and how wide words are.

Colours and fonts come from classes (bot/web/static/pictures.css): the page's policy allows no
inline style. Names of services and metrics are foreign text, and are escaped here and nowhere else.
"""

from __future__ import annotations

import html
import re
import unicodedata

from faultline.analysis.wording.phrases import plain

_WIDTHS = (
    (0.35, " ,.'ijlIJ/:;\\|f"),
    (0.41, "-()[]t!r"),
    (0.52, '"*_`sz?'),
    (0.64, "cLFkvxyPTYaoeESbdghnpqu0123456789${}"),
    (0.75, "KAVBRXZCUHN"),
    (0.85, "DG&OQw#+<=>^~M"),
)
"""Widths of DejaVu Sans in em, rounded up. Hardly any font of a browser is wider, so that words
that fit by this table fit on every machine."""
_WIDTH_OF = {character: width for width, characters in _WIDTHS for character in characters}
WIDEST = 1.06
"""Of what is not in the table: capitals such as W, and whole scripts."""
# After a separator, before a capital, or before a final "service".
_JOINT = re.compile(r"(?<=.)(?:[-_./: ]|(?<=[a-z])(?=[A-Z])|(?=service$|Service$))(?=.)")
BOLD = 1.12
"""A bold letter beside a regular one: DejaVu Sans Bold, over a sample of service names."""


def element(name: str, *inside: str, **attributes: str | float | None) -> str:
    """One element. Attributes of None are left out; `class_` is `class`, `a_b` is `a-b`."""
    markup = []
    for key, value in attributes.items():
        if value is not None:
            # A tenth of a pixel is finer than anybody sees.
            shown = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
            markup.append(f' {key.rstrip("_").replace("_", "-")}="{escaped(shown)}"')
    if not inside:
        return f"<{name}{''.join(markup)}/>"
    return f"<{name}{''.join(markup)}>{''.join(inside)}</{name}>"


def picture(
    width: float, height: float, words: str, *inside: str, class_: str, links: bool = False
) -> str:
    """The root element, with its text alternative."""
    # To a screen reader an image has nothing inside: not so one with links.
    role = "group" if links else "img"
    return element(
        "svg",
        element("title", escaped(plain(words, 2000))),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role=role,
        aria_label=plain(words, 2000),
    )


def text(
    x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None
) -> str:
    """Words whose baseline is at y; `anchor` is "middle" or "end", where x is not their start."""
    return element("text", escaped(words), x=x, y=y, class_=class_, text_anchor=anchor)


def escaped(words: str) -> str:
    """Foreign text inside of an element or an attribute."""
    return html.escape(words, quote=True)


def words_width(words: str, size: float, *, bold: bool = False) -> float:
    """At most how wide the words are, in the unit of the font's size."""
    em = 0.0
    for character in words:
        # A combining mark stands on its letter and takes no room.
        if not unicodedata.combining(character):
            em += _WIDTH_OF.get(character, WIDEST)
    return em * size * (BOLD if bold else 1.0)


def fitted(words: str, width: float, size: float, *, bold: bool = False) -> str:
    """The words, cut in their middle where they are too wide: the ends tell names apart."""
    line = plain(words, 200)
    if words_width(line, size, bold=bold) <= width:
        return line
    for index in range(len(line) - 1, 1, -1):
        head = (index + 1) // 2
        cut = f"{line[:head].rstrip()}…{line[len(line) - (index - head) :].lstrip()}"
        if words_width(cut, size, bold=bold) <= width:
            return cut
    return "…"


def shortened(words: str, width: float, size: float, *, bold: bool = False) -> str:
    """The words, cut at their end where they are too wide."""
    line = plain(words, 200)
    count = len(line)
    cut = line
    while count and words_width(cut, size, bold=bold) > width:
        count -= 1
        cut = f"{line[:count].rstrip()}…"
    return cut


def wrapped(words: str, width: float, size: float, *, bold: bool = False) -> tuple[str, ...]:
    """The words on one line, or on two where they are too wide: parted at a joint of the name, such
    as a hyphen, or else where the first line is full."""
    line = plain(words, 200)
    if words_width(line, size, bold=bold) <= width:
        return (line,)
    fitting = 1
    while words_width(line[: fitting + 1], size, bold=bold) <= width:
        fitting += 1
    joints = [joint.end() for joint in _JOINT.finditer(line) if joint.end() <= fitting]
    place = joints[-1] if joints else fitting
    return line[:place].rstrip(), fitted(line[place:], width, size, bold=bold)
