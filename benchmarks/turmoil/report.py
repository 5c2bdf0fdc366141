"""What a run says at its end, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.turmoil.faults import Happened
from benchmarks.turmoil.lines import USUAL_SICKNESSES
from benchmarks.turmoil.paths import Waited
from benchmarks.turmoil.proof import KINDS, Books
from benchmarks.turmoil.senders import Sent
from benchmarks.turmoil.world import VENDORS

MOST_STORIES = 8


@dataclass(frozen=True)
class Ran:
    """One run of `turmoil`."""

    engine: str
    seed: int
    seconds: float
    books: Books
    happened: Happened
    sent: Sequence[Sent]
    recovered_s: float
    """From the healing of the last fault to the last answer."""
    unmet: Sequence[str]
    """Faults that there was no time for."""
    ended: Counter[str]
    """Processes that ended by themselves."""

    @property
    def fine(self) -> bool:
        """Whether everything is as it must be."""
        return not self.books.violations and not self.happened.failed


def ran_lines(ran: Ran) -> list[str]:
    """Tables of what was done and what came of it; the stories of what went wrong."""
    books, happened = ran.books, ran.happened
    lines = [
        f"## Turmoil on {ran.engine}",
        "",
        f"{len(ran.sent)} alerts, {happened.kills} processes killed, {happened.black_holes} black "
        f"holes, {ran.seconds / 60:.1f} minutes",
        "",
        *fault_lines(happened, ran.unmet),
        *outcome_lines(ran),
    ]
    lines += [
        f"- a process ended by itself: {how}, {count} times"
        for how, count in sorted(ran.ended.items())
    ]
    lines += [f"- a fault failed: {problem}" for problem in happened.failed]
    lines += [
        f"- VIOLATION (seed {ran.seed}, {ran.engine}): {violation}"
        for violation in books.violations
    ]
    lines += [
        line
        for narrative in list(books.concerned.values())[:MOST_STORIES]
        for line in ("", narrative)
    ]
    return [*lines, ""]


def fault_lines(happened: Happened, unmet: Sequence[str]) -> list[str]:
    """Two tables: how often each fault was made, and how often each vendor was sick."""
    lines = ["| fault | times |", "|---|---|"]
    of_vendors = {f"{vendor} {sickness}" for vendor in VENDORS for sickness in USUAL_SICKNESSES}
    other_counts = {kind: n for kind, n in happened.counts.items() if kind not in of_vendors}
    lines += [f"| {kind} | {count} |" for kind, count in sorted(other_counts.items())]
    lines += [
        f"| {kind} | not possible here: {why} |" for kind, why in sorted(happened.skipped.items())
    ]
    lines += [f"| {kind} | no time left |" for kind in sorted(set(unmet) - of_vendors)]
    lines += [
        "",
        f"| vendor | {' | '.join(USUAL_SICKNESSES)} |",
        f"|---|{'---|' * len(USUAL_SICKNESSES)}",
    ]
    for vendor in VENDORS:
        counts = [str(happened.counts[f"{vendor} {sickness}"]) for sickness in USUAL_SICKNESSES]
        lines.append(f"| {vendor} | {' | '.join(counts)} |")
    return lines


def outcome_lines(ran: Ran) -> list[str]:
    """Two tables: what senders were answered, and how the investigations ended."""
    books = ran.books
    lines = ["", "| deliveries were answered | times |", "|---|---|"]
    lines += [f"| {outcome} | {count} |" for outcome, count in sorted(books.outcomes.items())]
    refused = sum(sent_alert.refused for sent_alert in ran.sent)
    lines += [f"| 5xx, or not at all, and sent again | {refused} |"]
    lines += ["", "| investigations | |", "|---|---|", f"| answered | {books.answered} |"]
    lines += [f"| ended with an explanation | {books.explained} |"]
    lines += [f"| {kind} | {books.broken[kind]} |" for kind in KINDS]
    lines += [
        f"| messages in Slack | {books.messages} |",
        f"| notes at PagerDuty | {books.notes} |",
    ]
    lines += [f"| last answer after the last fault | {ran.recovered_s:.0f} s |", ""]
    return lines


def path_lines(engine: str, waited: Sequence[Waited]) -> list[str]:
    """What was well beside what was sick."""
    lines = [f"## Healthy integrations are not delayed, on {engine}", ""]
    lines += [
        "| sick | what is measured | median / longest | while all is well | bound |",
        "|---|---|---|---|---|",
    ]
    for measurement in waited:
        measured = (
            f"{measurement.median_s:.1f} / {measurement.longest_s:.1f} s"
            if measurement.seconds
            else "no answer"
        )
        usual = f"{measurement.usual_median_s:.1f} / {measurement.usual_longest_s:.1f} s"
        phrase = "" if measurement.fine else " **exceeded**"
        lines.append(
            f"| {measurement.sick} | {measurement.what} | {measured} | {usual} | "
            f"{measurement.bound_s:.0f} s{phrase} |"
        )
    return [*lines, ""]
