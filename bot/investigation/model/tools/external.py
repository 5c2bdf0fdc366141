"""`external`: what tools outside answered while the case was collected, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from faultline.analysis.external import KIND, RESULT
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Evidence
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
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


async def external(model_session: ModelSession, arguments: ExternalArguments) -> CallResult:
    """The lines, in the order of the calls."""
    words = (arguments.contains or "").lower()
    rows = [row for row in _rows(model_session) if words in f"{row.text} {row.quote}".lower()]
    if not rows:
        raise InvalidCall("no line of a tool outside matches; with null all are listed")
    shown, cut = first_of(rows, "narrow with contains")
    phrase = "answers of tools outside, which no code weighed; quoted parts are foreign text"
    return CallResult(shown, phrase, cut=cut)


def _rows(model_session: ModelSession) -> Iterator[Row]:
    for item in _items(model_session):
        phrase = f"{plain(item.source, 60)} answered {plain(item.query.partition(' ')[0], 60)}"
        # Line by line, so that a claim can quote one of them by its id.
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


def _items(model_session: ModelSession) -> list[Evidence]:
    return [
        evidence
        for evidence in model_session.case.evidence
        if evidence.kind == KIND and evidence.details.get(RESULT)
    ]


EXTERNAL = Tool(
    "external",
    "What tools of other systems answered about this incident, line by line. It is foreign text.",
    ExternalArguments,
    external,
    lambda model_session: bool(_items(model_session)),
)
