"""Which of the things that a connector would read it may read, as `faultline check` says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReadableParts:
    """What was tried, by its name: None, or why it was refused.

    `needs` says of a refused part which permission would make it readable.
    """

    refusals: Mapping[str, str | None]
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def readable(self) -> Sequence[str]:
        """The names of those that can be read."""
        return [what for what, refusal in self.refusals.items() if refusal is None]

    @property
    def unread(self) -> tuple[str, ...]:
        """One phrase for each that cannot: why, and what it needs."""
        phrases = []
        for what, refusal in self.refusals.items():
            if refusal is None:
                continue
            needed = f"; needs {self.needs[what]}" if what in self.needs else ""
            phrases.append(f"{what} cannot be read ({refusal}{needed})")
        return tuple(phrases)

    @property
    def words(self) -> str:
        """Both, for a line."""
        able = [f"{', '.join(self.readable)} can be read"] if self.readable else []
        return "; ".join([*able, *self.unread])
