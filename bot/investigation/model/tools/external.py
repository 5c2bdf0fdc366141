"""`external`: what tools outside answered while the case was collected, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from faultline.analysis.external import KIND, RESULT
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Evidence
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.bench import Bench
from faultline.bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Row,
    Tool,
    first_of,
    observation,
    quoted,
)


class ExternalArguments(Arguments):
    contains: str | None = Field(
        default=None, description="Words of the line or of the call, any case, or null for all."
    )


async def external(bench: Bench, asked: ExternalArguments) -> Found:
    """The lines, in the order of the calls."""
    words = (asked.contains or "").lower()
    rows = [row for row in _rows(bench) if words in f"{row.text} {row.quote}".lower()]
    if not rows:
        raise NotFound("no line of a tool outside matches; with null all are listed")
    shown, cut = first_of(rows, "narrow with contains")
    phrase = "answers of tools outside, which no code weighed; quoted parts are foreign text"
    return Found(shown, phrase, cut=cut)


def _rows(bench: Bench) -> Iterator[Row]:
    for item in _items(bench):
        phrase = f"{plain(item.source, 60)} answered {plain(item.query.partition(' ')[0], 60)}"
        for line in item.details[RESULT].splitlines():
            quote = quoted(line)
            finding = observation(
                item.source,
                KIND,
                f'{phrase}: "{plain(quote, 160)}".',
                ObservationDetails(
                    about="external", quote=quote, expression=plain(item.query, 200)
                ),
                evidence=(item.id,),
            )
            yield Row(phrase, quote, finding)


def _items(bench: Bench) -> list[Evidence]:
    return [one for one in bench.case.evidence if one.kind == KIND and one.details.get(RESULT)]


EXTERNAL = Tool(
    "external",
    "What tools of other systems answered about this incident, line by line. It is foreign text.",
    ExternalArguments,
    external,
    lambda bench: bool(_items(bench)),
)
