"""What runbooks say, as lines for people: beside the findings, never among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from faultline.analysis.case.runbooks import AppliedRunbook, AppliedRunbooks
from faultline.analysis.vocabulary import Guidance, Link, Report
from faultline.bot.answer.writer.plain_text import clipped, quotable

MOST_LINES = 16
MOST_PER_RUNBOOK = {"expected": 2, "owner": 1, "next_step": 4, "link": 4}
LONGEST_LINE = 400


def with_guidance(report: Report, applied: AppliedRunbooks) -> Report:
    """The report with what runbooks say; nothing that was worded before is touched."""
    return (
        report.model_copy(update={"guidance": guidance_of(applied)}) if applied.runbooks else report
    )


def guidance_of(applied: AppliedRunbooks) -> tuple[Guidance, ...]:
    """Line by line: first of all runbooks what makes the alert expected, then owners, then steps,
    then links."""
    lines = [line for runbook in applied.runbooks for line in _runbook_guidance(runbook)]
    order = list(MOST_PER_RUNBOOK)
    guidances: dict[tuple[str, str], Guidance] = {}
    for line in sorted(lines, key=lambda line: order.index(line.kind)):
        # Several runbooks may say the same; once is enough.
        guidances.setdefault((line.kind, line.url or line.text), line)
    return tuple(guidances.values())[:MOST_LINES]


def guidance_text(line: Guidance) -> str:
    """The line with its provenance: `Runbook Backups says: this alert is expected ...`."""
    says = ":" if line.kind == "link" else " says:"
    return f"Runbook {line.runbook}{says} {line.text}"


def guidance_lines(guidance: Iterable[Guidance]) -> list[tuple[str, tuple[Link, ...]]]:
    """Lines for people with their links: one line for what is said, one for all links of a
    runbook."""
    lines = list(guidance)
    links: dict[str, tuple[Link, ...]] = {}
    for line in lines:
        if line.url is not None:
            links[line.runbook] = (
                *links.get(line.runbook, ()),
                Link(title=line.text, url=line.url),
            )
    phrases: list[tuple[str, tuple[Link, ...]]] = [
        (guidance_text(line), ()) for line in lines if line.url is None
    ]
    return phrases + [(f"Runbook {runbook}:", to) for runbook, to in links.items()]


def _runbook_guidance(runbook: AppliedRunbook) -> Iterator[Guidance]:
    name = clipped(quotable(runbook.name), 80)
    hours = [
        f"expected {e.when}: {e.text}" if e.when else f"known benign reason: {e.text}"
        for e in runbook.expected
    ]
    kinds: Sequence[tuple[Any, Iterable[str]]] = (
        (
            "expected",
            (f"this alert is {line}" if line.startswith("expected") else line for line in hours),
        ),
        ("owner", (f"owned by {runbook.owner}",) if runbook.owner else ()),
        ("next_step", runbook.next_steps),
    )
    for kind, texts in kinds:
        for text in list(texts)[: MOST_PER_RUNBOOK[kind]]:
            yield Guidance(runbook=name, kind=kind, text=clipped(quotable(text), LONGEST_LINE))
    for link in runbook.links[: MOST_PER_RUNBOOK["link"]]:
        yield Guidance(
            runbook=name, kind="link", text=clipped(quotable(link.title), 80), url=link.url
        )
