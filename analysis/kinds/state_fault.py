"""A fault that an object's own state shows: what it is, and how it is said.

A fact is a row of the table `states` (docs/case-folder.md); its name is that of the fault here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from faultline.analysis.kinds.fault_kinds import FaultKind


class Depth(IntEnum):
    """How near a fact is to a cause. One of a lower depth explains those above it."""

    SETTING = 0
    """What somebody set, or what is broken itself: nothing in the cluster brings it about."""
    INSTANCE = 1
    """An instance that does not run; a setting, a node or its own code is why."""
    EFFECT = 2
    """What is missing for want of instances."""


@dataclass(frozen=True)
class StateFault:
    """One fact, the fault that it speaks of, and how it is said."""

    fault: FaultKind
    depth: Depth
    says: str
    """The sentence; may name `{object}`, `{value}` and `{expected}`."""
    says_less: str = ""
    """The sentence where the value is not known."""
    signatures: frozenset[str] = frozenset()
    """The known failures by which log lines, that connectors make of the cluster's events, say the
    same (`failure_signatures.toml`)."""

    @property
    def name(self) -> str:
        """The fact's name."""
        return self.fault.name


def state_fault(
    name: str,
    weight: float,
    depth: Depth,
    phrase: str,
    says: str,
    *,
    step: str,
    less: str = "",
    travels: bool = False,
    waits: bool = False,
    rises_with_load: bool = False,
    logged_as: tuple[str, ...] = (),
) -> StateFault:
    """The subject has it by itself, unless it `travels` from what it calls. What `waits` runs out
    of slots while a callee is slow, too."""
    fault = FaultKind(
        name=name,
        weight=weight,
        phrase=phrase,
        next_step=step,
        inherent=not travels,
        travels="fails" if travels else "slow" if waits else None,
        rises_with_load=rises_with_load,
        has_impact=depth is Depth.EFFECT,
        tables=("states",),
    )
    return StateFault(fault, depth, says, less, frozenset(logged_as))
