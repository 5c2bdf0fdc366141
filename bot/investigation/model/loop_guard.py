"""Notices a model that goes in circles: the same call again, two calls in turns, nothing but
errors.

It gets a warning, and what it already has is not fetched again. The second time its tools are
withdrawn, and it reports.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from faultline.bot.investigation.model.turns import ToolCall

NUDGES = 2
"""With this one the tools are withdrawn."""
ERRORS_IN_A_ROW = 3
"""Rounds."""
ALTERNATING = 4


@dataclass
class LoopGuard:
    """Watches the calls of one conversation, in their order."""

    nudges: int = 0
    _first_positions: dict[str, int] = field(default_factory=dict)
    _calls: list[str] = field(default_factory=list)
    _errors: int = 0
    _why: str | None = None

    @property
    def withdrawn(self) -> bool:
        """Whether the model has lost its tools."""
        return self.nudges >= NUDGES

    def repeated(self, call: ToolCall) -> int | None:
        """The number of the earlier call that was the same; None for a new one. Counts the call."""
        try:
            # The same arguments in another order, or with other blanks, are the same call.
            arguments = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
        except (ValueError, RecursionError):
            arguments = call.arguments
        key = f"{call.name} {arguments}"
        self._calls.append(key)
        earlier = self._first_positions.setdefault(key, len(self._calls))
        if earlier == len(self._calls):
            return None
        last = self._calls[-ALTERNATING:]
        # Four calls of the form A, B, A, B.
        alternates = len(last) == ALTERNATING and last[0] == last[2] != last[1] == last[3]
        self._why = "the same two calls in turns" if alternates else "a call that was made before"
        return earlier

    def forget(self) -> None:
        """The history was compacted: what a call brought may be asked for once more."""
        self._first_positions.clear()

    def ended(self, *, error: bool) -> None:
        """How the calls of one answer ended: badly only where every one of them failed."""
        self._errors = self._errors + 1 if error else 0
        if self._errors >= ERRORS_IN_A_ROW:
            self._why = f"{self._errors} rounds of calls in a row that failed"

    def nudge(self) -> str | None:
        """After each round: what to tell the model, None where it gets on."""
        why, self._why = self._why, None
        if why is None:
            return None
        self.nudges += 1
        # From zero, or every further failure would count as another circle.
        self._errors = 0
        return (
            f"Note from the program: {why}. Ask for something else that is still open, or stop "
            f"asking."
        )
