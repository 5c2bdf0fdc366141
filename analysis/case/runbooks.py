"""What runbooks gave to a case, runbooks.json: guidance of the operator beside the evidence, never
evidence itself.

It is written when the scope is fixed, so that the same case always gets the same guidance. No
analyzer reads it: what a runbook says can neither make a cause nor change a verdict or a
confidence.
"""

from __future__ import annotations

from pydantic import Field

from faultline.analysis.vocabulary import Frozen, Link

RUNBOOKS_FILE = "runbooks.json"


class ExpectedAlert(Frozen):
    """A known benign reason for the alert. `when` gives its hours in words; empty where it holds at
    any time."""

    text: str
    when: str = ""


class AppliedRunbook(Frozen):
    """A runbook that applied. `path` is relative to its directory, `digest` the first 12 hex digits
    of its SHA-256."""

    name: str
    path: str
    digest: str
    why: str
    """What matched, in a few words; of an included one, by which it was included."""
    owner: str = ""
    expected: tuple[ExpectedAlert, ...] = ()
    """Only those whose hours held when the alert began."""
    next_steps: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    text: str = ""
    """Its Markdown below the front matter."""


class AppliedRunbooks(Frozen):
    """The whole file, the most specific runbook first. `troubles` says which runbooks could not be
    used, and why."""

    runbooks: tuple[AppliedRunbook, ...] = ()
    troubles: tuple[str, ...] = Field(default=(), max_length=100)
