"""What each place that shows an answer would do with it: links, calls of people, mark-up, hidden
characters."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from faultline.analysis.requests.topology import case_calls
from faultline.analysis.vocabulary import Diagnosis, Report
from faultline.bot.answer.pictures import (
    bars_svg,
    chart_svg,
    decisive_chart_of,
    incident_map,
    map_svg,
    step_bars_of,
)
from faultline.bot.answer.replay import Replayed, print_report
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.slack.message import SlackMessage, final_message, first_message
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.markdown import to_markdown
from tests.bot.answer.targets.answers import PAGE, an_investigation

DRAWN = {"svg", "g", "a", "path", "rect", "circle", "text", "title"}
OURS = ("https://faultline.example.com/", "https://shop.example/")
_ADDRESS = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'|)\]]*", re.IGNORECASE)
_HIDDEN = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e0fff]"
)


def faults(replayed: Replayed, report: Report) -> list[str]:
    """All that would happen in any place and must not."""
    case, diagnosis = replayed.case, replayed.diagnosis
    about = replace(an_investigation(), alert=case.alert)
    found: list[str] = []
    for message in (
        first_message(about, PAGE),
        final_message(
            about,
            answer_view(about.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence),
            PAGE,
        ),
    ):
        found += [f"slack: {f}" for f in _in_slack(message)]
    note = note_text(
        about,
        answer_view(about.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence),
        PAGE,
    )
    found += [f"pagerduty: {f}" for f in (*_foreign_addresses(note), *_hidden(note))]
    text = to_markdown(
        answer_view(case.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
    )
    found += [f"markdown: {f}" for f in (*_in_markdown(text), *_hidden(text))]
    found += [f"terminal: {f}" for f in _in_terminal(replayed, report)]
    found += [f"picture: {f}" for f in _in_pictures(replayed, report)]
    return found


def _in_pictures(replayed: Replayed, report: Report) -> Iterator[str]:
    case, diagnosis = replayed.case, replayed.diagnosis
    view = answer_view(case.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
    drawn = []
    incident = incident_map(view, case_calls(case))
    chart, bars = decisive_chart_of(case, diagnosis), step_bars_of(diagnosis)
    if incident is not None:
        drawn.append(map_svg(incident, 640, lambda finding: f"#{finding}"))
    if chart is not None:
        drawn.append(chart_svg(chart, 640))
    if bars is not None:
        drawn.append(bars_svg(bars, 640))
    for picture in drawn:
        yield from _hidden(picture)
        for one in ElementTree.fromstring(picture).iter():
            name = one.tag.rpartition("}")[2]
            if name not in DRAWN:
                yield f"an element <{name}>"
            if [key for key in one.attrib if key.startswith("on") or key == "style"]:
                yield f"attributes {one.attrib}"
            if not one.get("href", "#").startswith("#"):
                yield f"a link to {one.get('href')}"


def _in_slack(message: SlackMessage) -> Iterator[str]:
    for element in _elements([*message.blocks]):
        kind, text = element.get("type"), element.get("text")
        if kind == "mrkdwn" and isinstance(text, str):
            yield from (
                f"{tag!r}" for tag in re.findall(r"<[^>]*>?", text) if not tag[1:].startswith(OURS)
            )
            yield from _foreign_addresses(re.sub(r"<[^>]*>", " ", text))
        if kind in ("user", "usergroup", "channel", "broadcast", "team"):
            yield f"calls {element}"
        url = element.get("url") or element.get("image_url")
        if isinstance(url, str) and not url.startswith(OURS):
            yield f"links {url}"
        if kind in ("text", "plain_text", "mrkdwn", "link"):
            yield from _hidden(str(text))
    yield from re.findall(r"<[!@#][^>]*>", message.text)
    yield from _foreign_addresses(message.text)


def _elements(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _elements(part)


def _in_markdown(text: str) -> Iterator[str]:
    for target in re.findall(r"(?<!\\)\]\(([^)]*)\)", text):
        if not target.startswith(("#", *OURS)):
            yield f"links {target}"
    yield from (
        tag
        for tag in re.findall(r"(?<!\\)<[^>]*>", text)
        if not re.fullmatch(r'<a id="f\d+">|</a>', tag)
    )
    yield from _foreign_addresses(re.sub(r"\]\([^)]*\)", " ", text))
    yield from (found for found in re.findall(r"(?<!\\)`[^\n]*|(?<!\\)!\[", text))


def _in_terminal(replayed: Replayed, report: Report) -> Iterator[str]:
    shown = io.StringIO()
    with redirect_stdout(shown):
        print_report(replace(replayed, report=report))
    yield from _hidden(shown.getvalue())
    yield from _foreign_addresses(shown.getvalue())


def _foreign_addresses(text: str) -> Iterator[str]:
    yield from (a for a in _ADDRESS.findall(text) if not a.startswith(OURS))


def _hidden(text: str) -> Iterator[str]:
    yield from (f"hidden character {c!r}" for c in set(_HIDDEN.findall(text)))


def decided(diagnosis: Diagnosis) -> str:
    """All that code decided, without the words: what no text may change."""
    causes = [
        (c.rank, c.subject, c.kind, c.change, c.confidence, c.findings, c.contradicting)
        for c in diagnosis.causes
    ]
    impact = (diagnosis.impact.since, diagnosis.impact.services, diagnosis.impact.findings)
    found = [(f.id, f.kind, f.onset, f.numbers) for f in diagnosis.findings]
    return json.dumps(
        [diagnosis.verdict, diagnosis.confidence, causes, impact, found], default=str, indent=1
    )
