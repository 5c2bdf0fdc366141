"""The result of a check, apart from what makes it: the server shows it, and loads no connector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """What `faultline check` says of a connector, in one line.

    `ok` says whether it is of use. `unread` are parts that it would read and may not, one phrase
    each; the line names them too.
    """

    name: str
    ok: bool
    line: str
    unread: tuple[str, ...] = ()
