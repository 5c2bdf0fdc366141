"""An answer as a Slack message: a first line, lines with links, log lines in a box, small print;
within Slack's limits.

All text goes into rich text elements, in which Slack parses nothing: no mention, channel or link
can be formed by it. Links are those that `AnsweredCase.links` made, and are checked again here.
"""

from __future__ import annotations

import re

from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, single_line
from faultline.bot.answer.targets.slack.blocks import (
    Block,
    bold,
    bullets,
    context,
    link,
    preformatted,
    rich,
    section,
    size,
    text,
)
from faultline.bot.answer.targets.slack.message import MAX_BLOCKS_JSON, MAX_TEXT, SlackMessage
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

MAX_LINES = 14
LINE = 420
OPENING = 600
CODE = 2_400
LIMITS = ((MAX_LINES, LINE, CODE), (8, 300, 1_200), (5, 220, 600), (3, 160, 0), (1, 120, 0))
"""Lines, characters of one, and characters of log lines. They are tried in this order until the
message fits."""
IMAGE_ALT = 300
_HALF_ESCAPE = re.compile(r"&[a-z]*\Z")


def message_of(
    answer: AnswerText, page_url: str | None, *, chart: str | None = None
) -> SlackMessage:
    """The message; what does not fit is said to be on the page. `chart` is the id of an uploaded
    file."""
    blocks: list[Block] = []
    for most, longest, code in LIMITS:
        blocks = _blocks(answer, page_url, most, longest, code, chart)
        if size(blocks) <= MAX_BLOCKS_JSON:
            break
    fallback_lines = [
        single_line(answer.lead, OPENING),
        *(_plain(line) for line in answer.lines[:MAX_LINES]),
    ]
    return SlackMessage(_cut(escape_mrkdwn("\n".join(fallback_lines))) or "-", tuple(blocks))


def _blocks(
    answer: AnswerText, page_url: str | None, most: int, longest: int, code: int, chart: str | None
) -> list[Block]:
    parts: list[Block] = [section(text(single_line(answer.lead, OPENING)))]
    shown = answer.lines[:most]
    if shown:
        parts.append(bullets([_line(line, longest) for line in shown]))
    box = code_box(answer.code, code)
    if box:
        parts.append(preformatted(box))
    blocks = [rich(*parts)]
    if chart is not None:
        alt = single_line(answer.lead, IMAGE_ALT) or "Chart"
        blocks.append({"type": "image", "slack_file": {"id": chart}, "alt_text": alt})
    left = len(answer.lines) - len(shown)
    more = [*([f"{left} more lines on the page"] if left else []), *answer.more]
    if more or page_url:
        blocks.append(context(" · ".join(more), page_url, limit=900))
    return blocks


def _line(line: AnswerLine, longest: int) -> Block:
    elements = [bold(single_line(line.bold, 120)), text("  ")] if line.bold else []
    elements.append(text(single_line(line.text, longest)))
    for title, address in line.links[:4]:
        url = safe_url(address)
        elements += [text("  "), link(url, single_line(title, 40))] if url else []
    return section(*elements)


def code_box(lines: tuple[str, ...], limit: int) -> str:
    """Log lines of at most `limit` characters."""
    showns, room = [], limit
    for line in lines:
        shown = single_line(line, 300)
        if len(shown) + 1 > room:
            # Stop at the first line that does not fit: a gap in the middle would mislead.
            break
        showns.append(shown)
        room -= len(shown) + 1
    return "\n".join(showns)


def _plain(line: AnswerLine) -> str:
    line_text = single_line(line.text, LINE)
    return f"{single_line(line.bold, 120)}: {line_text}" if line.bold else line_text


def _cut(escaped: str) -> str:
    """Never inside an escape."""
    return escaped if len(escaped) <= MAX_TEXT else _HALF_ESCAPE.sub("", escaped[:MAX_TEXT])
