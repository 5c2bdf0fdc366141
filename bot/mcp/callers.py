"""Who calls: the person at this machine, or the holder of a token."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.bot.policy.people import Act, Role, may
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
