"""Ids that a vendor promises to be unique within one account or workspace alone.

The id of a channel or an incident of a named instance is written with that name everywhere but in
what is said to the vendor and heard from it: `eu:C0123456789`. Rates, quiet hours, threads and
visibility, which compare channels as they are written, then tell two workspaces apart by
themselves. Where there is a single table, ids are written bare.
"""

from __future__ import annotations

SEPARATOR = ":"
"""Neither an instance's name nor such an id holds it."""


def named_id(instance: str, bare: str) -> str:
    """An id as it is written here. An empty one stays empty: it names nothing."""
    return f"{instance}{SEPARATOR}{bare}" if instance and bare else bare


def instance_in(written: str) -> str:
    """The instance that a written id belongs to; "" for that of a single table."""
    return written.rpartition(SEPARATOR)[0]


def bare_id(written: str) -> str:
    """A written id as the vendor knows it."""
    return written.rpartition(SEPARATOR)[2]
