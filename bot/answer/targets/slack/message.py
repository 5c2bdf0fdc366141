"""The messages Slack gets: the first message, the final answer, and that there is none.

Pure. Foreign text goes into `rich_text` elements, in which Slack parses nothing; where mrkdwn
cannot be avoided (the notification's text, the context line) it is escaped.
https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from faultline.analysis.vocabulary import Alert, Verdict
from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, sentence, single_line
from faultline.bot.answer.lines import (
    INFERRED,
    SECOND_OPINION,
    AnswerLines,
    CitedLine,
    Line,
    answer_lines,
    at,
    span_of,
)
from faultline.bot.answer.targets.plain_message import outcome_line
from faultline.bot.answer.targets.slack.blocks import (
    Block,
    bold,
    bullets,
    context,
    emoji,
    link,
    rich,
    section,
    size,
    spoken,
    text,
    titled,
)
from faultline.bot.answer.targets.slack.buttons import AnswerStatus, Offer, buttons, status_lines
from faultline.bot.answer.view import HIGH, AnswerView
from faultline.bot.answer.writer.model_use import model_use_line
from faultline.bot.store.store import GroupedAlert, StoredInvestigation

MAX_BLOCKS_JSON = 12_000
"""Slack answers `msg_blocks_too_long` from about 13,200 characters of blocks
(slackapi/bolt-js#2509)."""
MAX_TEXT = 3_900
"""chat.update refuses a `text` of more than 4,000 characters (`msg_too_long`)."""
MAX_ALT_TEXT = 500
"""Slack's limit is 2,000; a screen reader's is earlier."""
_HALF_ESCAPE = re.compile(r"&[a-z]*\Z")

DOTS: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "red_circle",
    Verdict.RECOVERED: "large_green_circle",
    Verdict.NO_ACTIVE_INCIDENT: "white_circle",
    Verdict.INSUFFICIENT_EVIDENCE: "large_yellow_circle",
}


class Detail(NamedTuple):
    """Most lines of each kind that a message holds."""

    why: int
    secondary: int
    gaps: int


_DETAIL = (Detail(4, 3, 3), Detail(4, 1, 3), Detail(2, 1, 2), Detail(1, 0, 1), Detail(0, 0, 0))
"""Lines are dropped in this order until a message fits. The page and the button show all of
them."""
RELATED = 5
"""Alerts of a storm that are listed; the others are counted."""


@dataclass(frozen=True)
class SlackMessage:
    """One message: `text` for notifications and as the last resort, `blocks` as Slack's own
    JSON."""

    text: str
    blocks: tuple[Block, ...]

    @property
    def has_image(self) -> bool:
        """Whether a block shows a file."""
        return any(block["type"] == "image" for block in self.blocks)

    def without_image(self) -> SlackMessage:
        """The same without its image blocks."""
        return SlackMessage(self.text, tuple(b for b in self.blocks if b["type"] != "image"))


def first_message(investigation: StoredInvestigation, page_url: str) -> SlackMessage:
    """`Investigating ...`, posted within seconds."""
    return _message(
        _opening(investigation),
        [*_related(investigation.related), context(_footer(investigation), page_url)],
    )


def final_message(
    investigation: StoredInvestigation,
    view: AnswerView,
    page_url: str,
    chart_file_id: str | None = None,
    *,
    status: AnswerStatus | None = None,
) -> SlackMessage:
    """The answer, alerts that belong to it, chart, buttons, what is missing, who wrote it."""
    status = status or AnswerStatus()
    answer = answer_lines(view, page_url=page_url)
    footer = _written(investigation, view)
    # What the picture shows is the headline: where it began and whom it reached.
    chart_text = f"Picture of the incident: {view.headline}"
    for detail in _DETAIL:
        blocks = [
            _answer(answer, _dot(view), detail),
            *_chart(chart_file_id, chart_text),
            *_related(investigation.related),
            *buttons(Offer(investigation, status, answered=True)),
            *status_lines(status, page_url),
            *_beside(answer, detail),
            *_gaps(answer, detail),
            context(footer, page_url),
        ]
        # The last one is sent even if it is too long: the edit then falls back to plain text.
        if size(blocks) <= MAX_BLOCKS_JSON:
            break
    # What a notification shows, and a client without blocks.
    lines = [f"{answer.state}: {answer.headline}", answer.decision, answer.happening]
    lines.append(f"Do next: {answer.steps[0]}")
    return SlackMessage(_cut_escaped("\n".join(line for line in lines if line)), tuple(blocks))


def slack_alert_failed_message(
    investigation: StoredInvestigation,
    reason: str,
    page_url: str,
    *,
    status: AnswerStatus | None = None,
) -> SlackMessage:
    """There is no answer, and why; what can be tried."""
    status = status or AnswerStatus()
    lines = [
        Line("Investigation failed", _title(investigation.alert)),
        Line("Why", sentence(reason, 400) or "Not known"),
        Line("Do", "Investigate by hand; what was collected so far is on the page"),
    ]
    rest = [
        *_related(investigation.related),
        *buttons(Offer(investigation, status, answered=False)),
        *status_lines(status, page_url),
        context(_footer(investigation), page_url),
    ]
    plain = _cut_escaped("\n".join(f"{line.label}: {line.text}" for line in lines))
    return _message(_lines(lines, "warning"), rest, plain)


def joined_message(investigation: StoredInvestigation, page_url: str) -> SlackMessage:
    """Another investigation has its alert, and answers."""
    lines = [
        Line("Joined", _title(investigation.alert)),
        Line("Why", sentence(investigation.headline or "Part of another incident", 400)),
    ]
    return _message(_lines(lines, "link"), [context(_footer(investigation), page_url)])


def _opening(investigation: StoredInvestigation) -> Block:
    alert = investigation.alert
    lines = [Line("Investigating", _title(alert))]
    about = [
        alert.service and f"service {alert.service}",
        alert.severity and f"severity {alert.severity}",
    ]
    about_text = " · ".join(single_line(a, 80) for a in about if a)
    lines.append(
        Line(
            "Alert",
            f"{single_line(alert.source, 40)}, "
            f"{at(alert.started_at)}{' · ' + about_text if about_text else ''}",
        )
    )
    if investigation.question:
        lines.append(Line("Asked", single_line(investigation.question, 300)))
    return _lines(lines, "mag")


def _title(alert: Alert) -> str:
    return single_line(alert.title, 240) or "an alert without a title"


def _footer(investigation: StoredInvestigation) -> str:
    repeats, rate_limited = investigation.repeats, investigation.rate_limited
    parts = [f"Faultline {investigation.id}"]
    if repeats:
        parts.append(f"the alert repeated {repeats} time{'s' if repeats != 1 else ''}")
    if rate_limited:
        alerts = f"{rate_limited} later alert{'s' if rate_limited != 1 else ''}"
        parts.append(f"{alerts} in this channel not investigated: its rate is used up")
    return " · ".join(parts)


def _written(investigation: StoredInvestigation, view: AnswerView) -> str:
    findings = len(view.findings)
    writer = single_line(view.written_by, 80)
    if view.written_by == "built-in":
        writer = "the built-in writer"
    parts = [
        _footer(investigation),
        f"written by {writer} from {findings} finding{'s' if findings != 1 else ''}",
    ]
    if view.refused:
        count = len(view.refused)
        parts.append(f"{count} claim{'s' if count != 1 else ''} refused: not borne out by findings")
    if view.model_use is not None:
        parts.append(model_use_line(view.model_use))
    elif investigation.finished_at is None:
        # This is a preview: the model's part follows.
        parts.append("a model is still investigating")
    took = (
        f"answered in {span_of(investigation.finished_at - investigation.accepted_at)}"
        if investigation.finished_at
        else None
    )
    return " · ".join([*parts, *([took] if took else [])])


def _related(related: Sequence[GroupedAlert]) -> list[Block]:
    """The alerts of a storm that joined this investigation."""
    if not related:
        return []
    items = [_related_line(grouped_alert) for grouped_alert in related[:RELATED]]
    if len(related) > RELATED:
        items.append(section(text(f"and {len(related) - RELATED} more, on the page")))
    count = len(related)
    return [titled(f"{count} more alert{'s' if count != 1 else ''} of the same incident", items)]


def _related_line(grouped_alert: GroupedAlert) -> Block:
    times = f" · {grouped_alert.repeats + 1} times" if grouped_alert.repeats else ""
    ended = " · resolved" if grouped_alert.resolved_at else ""
    why = single_line(grouped_alert.why, 120)
    return section(
        text(
            f"{single_line(grouped_alert.alert.title, 120)}{times}{ended}"
            f"{f' · {why}' if why else ''}"
        )
    )


def _dot(view: AnswerView) -> str:
    """Red is a cause that was found; one that is only likely is yellow."""
    if view.verdict is Verdict.CAUSE_FOUND and view.confidence < HIGH:
        return DOTS[Verdict.INSUFFICIENT_EVIDENCE]
    return DOTS[view.verdict]


def _answer(answer: AnswerLines, dot: str, detail: Detail) -> Block:
    """One screen of a phone: headline, what is happening, why, what to do, what is not sure."""
    # Bold text; what stands between backticks in a font of one width as well.
    shown = []
    for part in spoken(answer.headline):
        style = {**part.get("style", {}), "bold": True}
        shown.append({**part, "style": style})
    paragraph = [emoji(dot), bold(f" {answer.state}: "), *shown]
    screen = _Screen(paragraph)
    if answer.decision:
        screen.note(answer.decision)
    if answer.happening:
        screen.paragraph("What's happening", answer.happening)
    why = [_cited(line) for line in answer.why[: detail.why]]
    screen.listed(answer.why_label, why)
    screen.paragraph("Do next", answer.steps[0])
    more_steps = (*answer.steps[1 : 1 + detail.secondary], *answer.routing)
    screen.listed("", [section(*spoken(step)) for step in more_steps])
    unsure = [_cited(line) for line in answer.unsure[: detail.secondary]]
    screen.listed("Not sure about", unsure)
    if answer.confidence:
        screen.paragraph("Confidence", answer.confidence)
    return rich(*screen.parts())


class _Screen:
    """Paragraphs and lists one below the other. What follows a list begins a new line, and what
    follows a paragraph does not."""

    def __init__(self, first: list[Block]) -> None:
        self._parts: list[Block] = []
        self._open = first

    def paragraph(self, label: str, content: str) -> None:
        """A labelled paragraph."""
        self._open += [bold(f"\n{label}" if self._open else label), *spoken(f"  {content}")]

    def note(self, content: str) -> None:
        """A line in italics below the headline."""
        for part in spoken(f"\n{content}"):
            self._open.append({**part, "style": {**part.get("style", {}), "italic": True}})

    def listed(self, label: str, items: list[Block]) -> None:
        """A list below its label; nothing where it is empty."""
        if not items:
            return
        if label:
            self._open.append(bold(f"\n{label}" if self._open else label))
        self._close()
        self._parts.append(bullets(items))

    def parts(self) -> list[Block]:
        """All of them."""
        self._close()
        return self._parts

    def _close(self) -> None:
        if self._open:
            self._parts.append(section(*self._open))
        self._open = []


def _beside(answer: AnswerLines, detail: Detail) -> list[Block]:
    """What the model adds in its own words, and what memory and runbooks know."""
    blocks: list[Block] = []
    for title, lines in (
        (SECOND_OPINION, answer.second_opinion),
        (INFERRED, answer.inferred[: detail.secondary]),
        ("Earlier", answer.earlier[: detail.secondary]),
        ("Runbooks", answer.runbooks[: 2 * detail.secondary]),
    ):
        if lines:
            blocks.append(titled(title, [_cited(line) for line in lines]))
    return blocks


def _gaps(answer: AnswerLines, detail: Detail) -> list[Block]:
    most = detail.gaps
    blocks: list[Block] = []
    if answer.missing[:most]:
        blocks.append(titled("What is missing", [section(text(m)) for m in answer.missing[:most]]))
    if answer.gaps[:most]:
        items = [section(bold(gap.label), text(f"  {gap.text}")) for gap in answer.gaps[:most]]
        left_out = answer.gaps_left_out + len(answer.gaps[most:])
        if left_out:
            items.append(section(text(f"and {left_out} more, on the page")))
        blocks.append(titled("Evidence we could not collect", items))
    return blocks


def _chart(file_id: str | None, description: str) -> list[Block]:
    if file_id is None:
        return []
    return [
        {
            "type": "image",
            "slack_file": {"id": file_id},
            "alt_text": single_line(description, MAX_ALT_TEXT) or "Chart",
        }
    ]


def _message(first: Block, rest: Sequence[Block], plain_text: str | None = None) -> SlackMessage:
    return SlackMessage(plain_text or _plain_of(first), (first, *rest))


def _lines(lines: Sequence[Line], dot: str) -> Block:
    elements: list[Block] = [emoji(dot)]
    for number, line in enumerate(lines):
        gap = " " if number == 0 else "\n"
        elements += [bold(f"{gap}{line.label}"), *spoken(f"  {line.text}")]
    return rich(section(*elements))


def _cited(line: CitedLine) -> Block:
    elements: list[Block] = spoken(f"{line.text}  ")
    for number, source_link in enumerate(line.links):
        elements += [text(" ")] if number else []
        elements.append(link(source_link.url, source_link.title))
    return section(*elements)


def _plain_of(block: Block) -> str:
    texts = [e.get("text", "") for part in block["elements"] for e in part["elements"]]
    return _cut_escaped("".join(texts).strip())


def _cut_escaped(content: str) -> str:
    """Escaped and cut, never inside an escape."""
    escaped = escape_mrkdwn(content)
    return escaped if len(escaped) <= MAX_TEXT else _HALF_ESCAPE.sub("", escaped[:MAX_TEXT])


# The digest: one message for what came in a channel's quiet hours. Pure.

MAX_LINES = 20
"""Investigations listed; a line takes up to 550 characters of the 12,000 of blocks that Slack
takes."""
TITLE, HEADLINE = 80, 140


def digest_message(investigations: Sequence[StoredInvestigation], public_url: str) -> SlackMessage:
    """What came, what was found, and where to read on; the oldest first."""
    count = len(investigations)
    title = f"While it was quiet, {count} alert{'s were' if count != 1 else ' was'} investigated"
    shown = investigations[:MAX_LINES]
    blocks: list[Block] = [
        rich(section(bold(title))),
        rich(bullets([_line(investigation, public_url) for investigation in shown])),
    ]
    if count > len(shown):
        blocks.append(
            context(f"and {count - len(shown)} more", safe_url(public_url), to="All investigations")
        )
    # The text of a message is mrkdwn, so escape what is foreign in it.
    mrkdwn = escape_mrkdwn(
        "\n".join(
            [
                title,
                *(
                    single_line(investigation.headline or investigation.alert.title, HEADLINE)
                    for investigation in shown
                ),
            ]
        )
    )
    return SlackMessage(mrkdwn[:3_000], tuple(blocks))


def _line(investigation: StoredInvestigation, public_url: str) -> Block:
    related = f" and {len(investigation.related)} more" if investigation.related else ""
    url = safe_url(f"{public_url}/investigations/{investigation.id}")
    elements = [
        text(f"{investigation.accepted_at:%d %b %H:%M} UTC  "),
        bold(single_line(investigation.alert.title, TITLE)),
        text(f"{related}: "),
    ]
    elements += [text(f"{outcome_line(investigation)} ")]
    elements += [link(url, "open")] if url else []
    return section(*elements)
