"""The buttons under an answer, and what people have made of it: judged, muted, asked again.

Pure. A button that cannot do anything is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from bot.answer.foreign_text import escape_mrkdwn, one_line, safe_url
from bot.answer.lines import at
from bot.answer.targets.slack.blocks import Block, actions, button, option, overflow
from bot.store.labels import AnswerLabel
from bot.store.mutes import Mute
from bot.store.store import StoredInvestigation

Choice = Literal["evidence", "right", "wrong", "wider", "unmute", "again", "mute", "pagerduty"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
PREFIX = "faultline_"
"""Of every action id and callback id of ours."""
MORE = f"{PREFIX}more"
"""The overflow menu."""
MAX_BUTTONS = 5
"""More of them in a row wrap on a phone; what is left goes behind the three dots."""
MAX_CAUSE, MAX_WHO, MAX_REASON = 240, 80, 120


@dataclass(frozen=True)
class AnswerStatus:
    """What people have made of an answer, and what can still be done with it."""

    label: AnswerLabel | None = None
    mute: Mute | None = None
    may_mute: bool = True
    """Somebody's question is no alert: there is nothing to mute."""
    parent: str | None = None
    """The investigation that this one was started from."""
    note: Literal["none", "send", "update"] = "none"
    """What the button for PagerDuty would do; `none` where PagerDuty is not set up."""


def action_id(choice: Choice) -> str:
    """The action id of a choice's own button."""
    return f"{PREFIX}{choice}"


def option_value(choice: Choice, investigation_id: str) -> str:
    """The value of a choice inside the menu."""
    return f"{choice} {investigation_id}"


def read_choice(action: str, value: str) -> tuple[Choice, str] | None:
    """What was chosen of which investigation, from a click's action id and value; None for anything
    else."""
    name, investigation = action.removeprefix(PREFIX), value
    if action == MORE:
        name, _, investigation = value.partition(" ")
    return next(((c, investigation) for c in CHOICES if c == name), None)


def buttons(
    investigation: StoredInvestigation, status: AnswerStatus, *, answered: bool
) -> list[Block]:
    """The row of buttons; of a failed investigation those that need no answer."""
    shown: list[tuple[Choice, str]] = []
    if answered:
        shown += [("evidence", "Evidence"), ("right", "Right"), ("wrong", "Wrong")]
    if status.mute is not None:
        shown.append(("unmute", "Unmute"))
    shown += [("wider", "Wider window"), ("again", "Run again")]
    if status.mute is None and status.may_mute:
        shown.append(("mute", "Mute this alert"))
    if status.note != "none":
        shown.append(
            (
                "pagerduty",
                "Send to PagerDuty" if status.note == "send" else "Update the PagerDuty note",
            )
        )
    return [_row(shown, investigation.id)]


def status_lines(status: AnswerStatus, page_url: str) -> list[Block]:
    """Small lines under the buttons: who judged it, until when it is muted, what it was started
    from."""
    lines: list[str] = []
    if status.label is not None:
        lines.append(_judged(status.label))
    if status.mute is not None:
        lines.append(_muted(status.mute))
    if status.parent is not None:
        url = safe_url(f"{page_url.rpartition('/')[0]}/{status.parent}")
        first = escape_mrkdwn(one_line(status.parent, 60))
        lines.append(
            f"Started from <{escape_mrkdwn(url)}|{first}>" if url else f"Started from {first}"
        )
    elements = [{"type": "mrkdwn", "text": line, "verbatim": True} for line in lines]
    return [{"type": "context", "elements": elements}] if elements else []


def until_words(until: datetime) -> str:
    """`14:02 UTC, 20 Nov`: the end of a mute."""
    return f"{until:%H:%M} UTC, {until.day} {until:%b}"


def _judged(label: AnswerLabel) -> str:
    who = escape_mrkdwn(one_line(label.who, MAX_WHO)) or "somebody"
    verdict = "*Right*" if label.right else "*Wrong*"
    cause = escape_mrkdwn(one_line(label.cause, MAX_CAUSE))
    told = f": the cause was {cause}" if cause and not label.right else ""
    return f"{verdict}, said {who} at {at(label.at)}{told}"


def _muted(mute: Mute) -> str:
    who = escape_mrkdwn(one_line(mute.by, MAX_WHO)) or "somebody"
    reason = escape_mrkdwn(one_line(mute.reason, MAX_REASON))
    return f"*Muted* until {until_words(mute.until)} by {who}{f' ({reason})' if reason else ''}"


def _row(shown: Sequence[tuple[Choice, str]], investigation_id: str) -> Block:
    rest = shown[MAX_BUTTONS - 1 :] if len(shown) > MAX_BUTTONS else ()
    first = shown[: len(shown) - len(rest)]
    elements = [button(action_id(choice), said, investigation_id) for choice, said in first]
    if rest:
        options = [option(said, option_value(choice, investigation_id)) for choice, said in rest]
        elements.append(overflow(MORE, options))
    return actions("faultline_buttons", elements)
