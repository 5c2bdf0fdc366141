"""Other people's words in a claim: a whole line of a source, found by the words that a model gives
of it, and never cut so that its meaning turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from analysis.kinds.finding_details import ChangeDetails, LineDetails
from analysis.phrasing.phrase import Part, Phrase, name, say
from analysis.vocabulary import Assertion, Finding
from bot.answer.asserted.ground import ALERT, Ground, Refused
from bot.answer.asserted.measurements import own_finding
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.quotable import quotable

SOURCES = ("quote", "example", "template", "title", "line", "reason", "operation", "place")
"""Details of findings that hold other people's words."""
LEAST = 3
"""Letters of a quotation; fewer are found anywhere."""
SHOWN = 240
"""Characters of a line that are shown; of a longer one the words around the quotation."""
_SPACE = re.compile(r"\s+")
_CUT = re.compile(r"…|\.\.\.|<\*>")
_WORD = re.compile(r"[\w.-]+")


def quotes(said: Assertion, ground: Ground) -> Phrase:
    """The line with these words in it, and whose it is."""
    if said.findings[0] == ALERT:
        line = _line_with(said.quote, [ground.alert.title, ground.alert.summary or ""])
        return say("the alert says {line}", line=_quoted(line, ""))
    finding = own_finding(said, ground)
    line = _line_with(said.quote, list(quotable_texts(finding)))
    who = name(finding.subject)
    quoted = _quoted(line, finding.id)
    if LineDetails.of(finding) is not None:
        return say("{who} logs {line}", who=who, line=quoted)
    if ChangeDetails.of(finding) is not None:
        return say("the change to {who} says {line}", who=who, line=quoted)
    return say("{line} ({who})", who=who, line=quoted)


def no_data_about(said: Assertion, ground: Ground) -> Phrase:
    """Something that a person asked for, and that nothing here is called."""
    asked = neutral(said.quote, 60).strip(" \"'“”?.")
    if len(asked) < LEAST or not _WORD.search(asked):
        raise Refused("no_data_about takes a word of the question")
    if _plain(asked) not in _plain(ground.question):
        raise Refused("the question does not hold these words")
    known = [one for one in ground.subjects if _plain(asked) in one or one in _plain(asked)]
    if known:
        raise Refused(f"there is {neutral(ground.subjects[known[0]], 60)} in the data")
    said_of = next(
        (f.id for f in ground.findings.values() if _plain(asked) in _plain(f.sentence)), ""
    )
    if said_of:
        raise Refused(f"{said_of} speaks of it")
    return say("nothing in the data is called {it}", it=_quoted(asked, ""))


def quotable_texts(finding: Finding) -> Iterator[str]:
    """Every foreign text of a finding that may be quoted, as it is shown."""
    written = finding.details.written()
    for source in SOURCES:
        for text in _texts(written.get(source)):
            yield from text.splitlines()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _line_with(words: str, texts: list[str]) -> str:
    """The line that holds the words; of a long one what stands around them. Raises Refused."""
    # Data shows "…" for what varies, or where it was cut.
    pieces = [piece for part in _CUT.split(words) if (piece := _plain(part))]
    if sum(map(len, pieces)) < LEAST:
        raise Refused("a quotation needs words of the source in `quote`")
    wanted = re.compile(".*?".join(re.escape(piece) for piece in pieces))
    for text in texts:
        line = quotable(text)
        found = wanted.search(_plain(line))
        if found is not None:
            return _around(line, found.start(), found.end() - found.start())
    raise Refused("the source does not hold these words: quote it exactly as it is shown")


def _around(line: str, at: int, length: int) -> str:
    """The line, or of one that is too long a window of whole words."""
    line = _SPACE.sub(" ", line).strip()
    if len(line) <= SHOWN:
        return line
    spare = max(0, SHOWN - length) // 2
    start, end = max(0, at - spare), min(len(line), at + length + spare)
    head = line[start:end]
    if start:
        head = "…" + head.split(" ", 1)[-1]
    if end < len(line):
        head = head.rsplit(" ", 1)[0] + "…"
    return head


def _plain(text: str) -> str:
    return _SPACE.sub(" ", quotable(text)).strip(" …").casefold()


def _quoted(text: str, finding: str) -> Part:
    inside = text.replace("“", '"').replace("”", '"')
    return Part(f"“{inside}”", "quote", finding)
