"""Who calls: the person at this machine, or the holder of a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from faultline.analysis.errors import FaultlineError
from faultline.bot.policy.people import Act, Role, may
from faultline.bot.runtime.throttle import CallRate
from faultline.bot.store.visibility import ALL, Visibility


@dataclass(frozen=True)
class Caller:
    """Somebody whose agent calls. `who` names them in counts and in the audit."""

    who: str
    name: str
    role: Role
    visibility: Visibility = ALL
    """Whose investigations they see."""
    investigations_per_hour: int | None = None
    """Of a token with its own limit; None: that of people."""
    calls_per_minute: int | None = None
    is_local: bool = False
    """Whether they may name files of this machine."""

    def may(self, act: Act) -> bool:
        """Whether their role is enough."""
        return may(self.role, act)


THIS_MACHINE = Caller("this machine", "this machine", "admin", is_local=True)
"""Whoever starts `faultline mcp`: it runs with their rights."""


# How much one caller may call: at once, and in a minute.

AT_ONCE = 8
PER_MINUTE = 240
"""Four a second: an agent reads each result before its next call."""
MINUTE_S = 60.0


class CallLimits:
    """Counts calls in memory of one process; with several, each has its own count."""

    def __init__(
        self,
        *,
        at_once: int = AT_ONCE,
        per_minute: int = PER_MINUTE,
    ) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._calls = CallRate(MINUTE_S)
        self._running: Counter[str] = Counter()

    @contextmanager
    def call(self, caller: Caller) -> Iterator[None]:
        """One call, for the time of the block. Raises FaultlineError where it is one too many."""
        if self._running[caller.who] >= self._at_once:
            raise FaultlineError(
                f"{self._at_once} of your calls are running, which is the limit; wait for one"
            )
        most = caller.calls_per_minute or self._per_minute
        if wait := self._calls.wait_s(caller.who, most):
            raise FaultlineError(
                f"you have reached your limit of {most} calls per minute; the next one counts in "
                f"{wait} s"
            )
        self._running[caller.who] += 1
        try:
            yield
        finally:
            self._running[caller.who] -= 1
            if not self._running[caller.who]:
                del self._running[caller.who]
