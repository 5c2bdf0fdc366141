"""An answer as an Adaptive Card 1.5.

Pure. Text stands in text runs, in which a card parses no Markdown. A mention needs an entity of
the message, and there is none.

Source: the card's JSON schema (adaptivecards.io/schemas/1.5.0).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from faultline.analysis.vocabulary import QUESTION_PREFIX
from faultline.analysis.wording.amounts import Unit
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.lines import at
from faultline.bot.answer.pictures.chart_data import ChartPanel, DecisiveChart
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.tickets.revert_target import RevertTarget
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.answer.writer.plain_text import quotable
from faultline.bot.policy.people import person
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.policy.values import ENDED
from faultline.bot.settings import Settings
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute, Mutes

Part = dict[str, Any]

MAX_CARD_BYTES = 24_000
"""Teams takes messages of about 28 KB, mark-up included."""
LABELS = ("What's happening: ", "Do next: ", "Confidence: ", "Alert: ", "Model: ")
"""Lines whose label stands out."""
OPEN = "Open the investigation"
CUT = "…"


@dataclass(frozen=True)
class CardExtras:
    """Charts and small lines below an answer, and buttons."""

    lines: Sequence[str] = ()
    actions: Sequence[Part] = ()
    charts: Sequence[Part] = ()


NO_EXTRAS = CardExtras()


def card_of(text: str, key: str, extras: CardExtras = NO_EXTRAS) -> Part:
    """The card that bears `key`, which people do not see, as the id of its title."""
    parts = TextParts.of(text)
    title = block(run(parts.title, weight="Bolder", size="Medium"), id=key)
    body = [title, *(_line(line) for line in parts.lines if line)]
    return whole_card(parts.title, body, parts.page, extras)


def whole_card(
    title: str, body: Sequence[Part], page: str | None, extras: CardExtras = NO_EXTRAS
) -> Part:
    """A card with this body. `title` is what stands where cards are not shown."""
    card: Part = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.5",
        "fallbackText": quotable(title),
        "body": [*body, *extras.charts],
    }
    url = safe_url(page)
    actions = [{"type": "Action.OpenUrl", "title": OPEN, "url": url}] if url else []
    actions += extras.actions
    if actions:
        card["actions"] = actions
    return _fitting(card, [block(run(line, isSubtle=True)) for line in extras.lines])


def _line(line: str) -> Part:
    if line.startswith("- "):
        return block(run(f"•  {line[2:]}"), spacing="Small")
    if line.endswith(":"):
        return block(run(line, weight="Bolder"))
    for label in LABELS:
        if line.startswith(label):
            return block(run(label, weight="Bolder"), run(line.removeprefix(label)))
    return block(run(line))


def block(*runs: Part, **more: Any) -> Part:
    """A line of runs."""
    return {"type": "RichTextBlock", "inlines": list(runs), **more}


def run(text: str, **more: Any) -> Part:
    """A text run: what it holds is no mark-up."""
    # `quotable` strips the space that separates a label from its text.
    space = " " if text.endswith(" ") else ""
    return {"type": "TextRun", "text": quotable(text) + space, **more}


def _fitting(card: Part, last: Sequence[Part]) -> Part:
    """Without the last lines of the body, where the card is too long. `last` stays."""
    body = card["body"]
    # Two bytes for the comma and the space between two parts.
    sizes = [len(json.dumps(part).encode()) + 2 for part in body]
    size = len(json.dumps({**card, "body": list(last)}).encode()) + sum(sizes)
    if size <= MAX_CARD_BYTES:
        body += last
        return card
    left_out = block(run(CUT))
    # Leave room for the line that marks the cut.
    while size > MAX_CARD_BYTES - 200 and len(body) > 1:
        body.pop()
        size -= sizes.pop()
    body += [left_out, *last]
    return card


# What people made of an answer in Teams, and what they can do with it: lines and buttons of its
# card.
#
# A click comes back as an `adaptiveCard/action` (learn.microsoft.com, "Universal Actions for
# Adaptive Cards"): `faultline.bot.intake.teams_commands`.

RIGHT, WRONG, AGAIN, MUTE, UNMUTE, TICKET = "right", "wrong", "again", "mute", "unmute", "ticket"
"""Verbs of buttons. They stay the same: old cards keep their buttons."""
CAUSE = "cause"
"""The field of the form behind Wrong."""
MUTE_HOURS = 8
"""A mute by one click lasts a shift."""
MAX_WHO, MAX_TEXT, MAX_INPUT = 80, 240, 500


def answer_extras(key: str, store: Store, settings: Settings) -> CardExtras:
    """Of the message under a key; none where no investigation has ended. Blocks."""
    investigation = store.get(key.partition(":")[0])
    # A digest is about several investigations, so it has no buttons.
    if investigation is None or key.endswith("-digest") or investigation.status not in ENDED:
        return CardExtras()
    mute = Mutes(store.engine).muted(investigation.alert.fingerprint, datetime.now(UTC))
    tickets = issue_offers(investigation, store, settings)
    lines = [*_judged(investigation, store), *_muted(mute), *map(_made, tickets)]
    return CardExtras(
        [line for line in lines if line], list(_actions(investigation, mute, tickets))
    )


def issue_offers(
    investigation: StoredInvestigation, store: Store, settings: Settings
) -> list[TicketOffer]:
    """The trackers in use. Draft reverts are asked for where the case is at hand."""
    offers = ticket_offers(investigation, store, settings)
    reverts = {
        declared_target.target_name
        for declared_target in declared_targets(settings)
        if isinstance(declared_target, RevertTarget)
    }
    return [offer for offer in offers if offer.target not in reverts]


def may_mute(investigation: StoredInvestigation) -> bool:
    """What somebody asked for is no alert: there is nothing to mute."""
    return not investigation.alert.labels.get("fingerprint", "").startswith(QUESTION_PREFIX)


def _actions(
    investigation: StoredInvestigation, mute: Mute | None, tickets: list[TicketOffer]
) -> Iterator[dict[str, Any]]:
    if investigation.status == "done":
        yield _button(investigation, RIGHT, "Right")
        field = {
            "type": "Input.Text",
            "id": CAUSE,
            "label": "What was the cause?",
            "maxLength": MAX_INPUT,
        }
        form = {
            "type": "AdaptiveCard",
            "version": "1.5",
            "body": [field],
            "actions": [_button(investigation, WRONG, "Send")],
        }
        yield {"type": "Action.ShowCard", "title": "Wrong", "card": form}
    yield _button(investigation, AGAIN, "Run again")
    if mute is not None:
        yield _button(investigation, UNMUTE, "Unmute")
    elif may_mute(investigation):
        yield _button(investigation, MUTE, f"Mute for {MUTE_HOURS} h")
    if investigation.status == "done":
        for ticket in tickets:
            button = _button(investigation, TICKET, ticket.label, target=ticket.target)
            # Teams shows six buttons, and these behind three dots.
            yield {**button, "mode": "secondary"}


def _button(
    investigation: StoredInvestigation, verb: str, title: str, **more: str
) -> dict[str, Any]:
    data = {"investigation": investigation.id, **more}
    return {"type": "Action.Execute", "title": title, "verb": verb, "data": data}


def _judged(investigation: StoredInvestigation, store: Store) -> Iterator[str]:
    label = Labels(store.engine).get(investigation.id)
    if label is not None:
        who = single_line(person(label.who), MAX_WHO) or "somebody"
        cause = single_line(label.cause, MAX_TEXT)
        phrase = f": the cause was {cause}" if cause and not label.right else ""
        yield f"{'Right' if label.right else 'Wrong'}, said {who} at {at(label.at)}{phrase}"


def _muted(mute: Mute | None) -> Iterator[str]:
    if mute is not None:
        by = single_line(person(mute.by), MAX_WHO) or "somebody"
        yield f"Muted until {at(mute.until)} by {by}"


def _made(ticket: TicketOffer) -> str:
    return f"{ticket.noun} {single_line(ticket.title, MAX_WHO)}" if ticket.title else ""


# The decisive chart of an answer as line charts of a card: Teams draws them itself, on a phone and
# in dark mode too. A client that knows no charts leaves them out.
#
# Pure. The time runs in minutes or hours from one moment, because clients show the clock times of a
# card in their own time zones.
#
# Source: learn.microsoft.com, "Charts in Adaptive Cards", `Chart.Line`.

Points = Sequence[tuple[float, float]]

MOST_POINTS = 60
"""Of one series: what a phone can show, and some 2 KB of a card."""
MOST_RUNS = 4
"""Each part of a series between two holes is a line with its own legend. Of one with more holes,
such as a scrape that fails now and then, the points are joined."""
DIGITS = 4
LONG_S = 6 * 3600.0
"""From this length on the time is given in hours."""
COLOURS = {
    "culprit": "categoricalRed",
    "candidate": "categoricalMarigold",
    "affected": "categoricalBlue",
    "other": "categoricalBlue",
}
_SCALES: dict[str, Sequence[tuple[float, str]]] = {
    "time": (
        (7200.0, "hours"),
        (120.0, "minutes"),
        (1.0, "seconds"),
        (1e-3, "ms"),
        (1e-6, "µs"),
        (1e-9, "ns"),
    ),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "share": ((0.01, "%"),),
    "rate": ((1.0, "per second"),),
}
"""By kind of unit: from which value on, in seconds, bytes or shares of 1, and its name."""
_SIZES = {"hours": 3600.0, "minutes": 60.0}


def line_charts(chart: DecisiveChart) -> list[Part]:
    """One for each of its panels, the culprit's first."""
    # When it began, where that is known; else the alert.
    order = ("onset", "alert", "change")
    zero = min(chart.events, key=lambda event: order.index(event.kind))
    hours = chart.end - chart.start >= LONG_S
    step_s, named = (3600.0, "hours") if hours else (60.0, "minutes")
    axis = f"{named} from {zero.clock[:5]} UTC ({zero.words})"
    return [_panel(chart, panel, zero.time, step_s, axis) for panel in chart.panels]


def _panel(chart: DecisiveChart, panel: ChartPanel, zero: float, step_s: float, axis: str) -> Part:
    factor, unit = _scale(panel)

    def points(samples: Points) -> list[Part]:
        return [
            {"x": round((time - zero) / step_s, 2), "y": float(f"{value * factor:.{DIGITS}g}")}
            for time, value in samples
        ]

    def level(value: float) -> list[Part]:
        return points([(chart.start, value), (chart.end, value)])

    def series(legend: str, colour: str, values: list[Part]) -> Part:
        return {"legend": quotable(legend), "color": colour, "values": values}

    runs = panel.runs
    if len(runs) > MOST_RUNS:
        runs = (tuple(itertools.chain.from_iterable(runs)),)
    share = MOST_POINTS / len(panel.values)
    part = panel.title.rpartition(": ")[2]
    # A line needs two points, however short its run is.
    data = [
        series(part, COLOURS[panel.role], points(thinned(run, max(2, int(share * len(run))))))
        for run in runs
    ]
    if panel.usual is not None:
        # A usual range of a single value is one line.
        data += [series("usual", "neutral", level(edge)) for edge in sorted(set(panel.usual))]
    if panel.threshold is not None:
        data.append(series("alert threshold", "attention", level(panel.threshold)))
    low, high = min(panel.values), max(panel.values)
    for event in chart.events:
        if event.kind == "change" and not event.earlier:
            at = points([(event.time, low), (event.time, high)])
            data.append(series(f"{event.words} {event.clock[:5]}", "warning", at))
    titles = {"xAxisTitle": axis} | ({"yAxisTitle": quotable(unit)} if unit else {})
    return {
        "type": "Chart.Line",
        "title": quotable(panel.title),
        **titles,
        "data": data,
        "fallback": "drop",
    }


def thinned(run: Points, most: int) -> list[tuple[float, float]]:
    """At most `most` points: of each part the one that stands out most, so that peaks stay."""
    if len(run) <= most:
        return list(run)
    middle = median(value for _, value in run)
    return [max(part, key=lambda point: abs(point[1] - middle)) for part in _parts(run, most)]


def _parts(run: Points, count: int) -> Iterator[Points]:
    for place in range(count):
        yield run[place * len(run) // count : (place + 1) * len(run) // count]


def _scale(panel: ChartPanel) -> tuple[float, str]:
    """What to multiply values by, and the unit that they have then."""
    unit: Unit = panel.unit
    kind, _, per = unit.kind.partition("/")
    scales = _SCALES.get(kind)
    if scales is None:
        return unit.factor, unit.noun
    most = max(map(abs, panel.values)) * unit.factor
    least, name = next((scale for scale in scales if most >= scale[0]), scales[-1])
    # A value is shown in hours from two hours on, so that bound is not the unit's size.
    return unit.factor / _SIZES.get(name, least), f"{name}/{per}" if per else name
