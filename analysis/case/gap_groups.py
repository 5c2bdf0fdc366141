"""Gaps with one reason: a server that is away leaves four kinds empty, which is said once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from faultline.analysis.vocabulary import Gap

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class GapGroup:
    """Gaps of one source whose reasons are the same but for numbers, as of seconds to wait."""

    gaps: tuple[Gap, ...]
    """At least one."""

    @property
    def source(self) -> str:
        """The connector."""
        return self.gaps[0].source

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it did not bring, each kind once."""
        return tuple(dict.fromkeys(gap.kind for gap in self.gaps))

    @property
    def reason(self) -> str:
        """Why, without the name of the source in front."""
        first = self.gaps[0]
        return first.reason.removeprefix(f"{first.source} ")


def grouped(gaps: Iterable[Gap]) -> tuple[GapGroup, ...]:
    """The gaps in groups, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.source, _NUMBERS.sub("0", gap.reason)), []).append(gap)
    return tuple(GapGroup(tuple(group)) for group in groups.values())
