"""The error tree of Faultline.

FaultlineError
├── SettingsError     the operator's mistake: names the key and what it should be; start-up stops
├── EvidenceError     input that cannot be read: names file, row or byte, and what was dropped
├── ConnectorError    a vendor failed: vendor, call, status, retryable or not; becomes a Gap
└── BudgetExceeded    time, bytes, tokens or money ran out: what was done so far stands
"""

from __future__ import annotations

from typing import Any


class FaultlineError(Exception):
    """Any failure that Faultline explains to its user in one line. Pickled, it crosses processes
    and restarts."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    family: type[FaultlineError], args: tuple[Any, ...], values: dict[str, Any]
) -> FaultlineError:
    """The families' own parameters are not `args`, which is all that Exception would give back to
    them."""
    # Not `family(*args)`: its parameters differ from what `args` holds.
    error = family.__new__(family, *args)
    error.__dict__.update(values)
    return error


class SettingsError(FaultlineError):
    """A setting is missing or wrong."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class EvidenceError(FaultlineError):
    """A file of a case, or a trace, cannot be read. `where` is a row (1-based) or byte offset, in
    words."""

    def __init__(self, file: str, problem: str, where: str | None = None) -> None:
        super().__init__(f"{file}{', ' + where if where else ''}: {problem}")
        self.file = file
        self.problem = problem
        self.where = where


class ConnectorError(FaultlineError):
    """A vendor's answer was an error, late, too large or not understood.

    `unchanged` says that the vendor certainly changed nothing: it refused, or the request never
    reached it.
    """

    unchanged = False  # errors that an earlier version kept lack it

    def __init__(
        self,
        vendor: str,
        call: str,
        problem: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        unchanged: bool = False,
    ) -> None:
        code = f" (HTTP {status})" if status is not None else ""
        super().__init__(f"{vendor} {call}: {problem}{code}")
        self.vendor = vendor
        self.call = call
        self.problem = problem
        self.status = status
        self.retryable = retryable
        self.unchanged = unchanged


class BudgetExceeded(FaultlineError):
    """A limit of time, size, tokens or money was reached. `what` names it, `limit` says how
    much."""

    def __init__(self, what: str, limit: str) -> None:
        super().__init__(f"{what} limit of {limit} reached")
        self.what = what
        self.limit = limit
