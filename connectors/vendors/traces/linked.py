"""Traces that an alert links to: which of its links are such, and fetching them through the
guard."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from faultline.analysis.errors import BudgetExceeded
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.guarded_fetch import (
    AllowedHost,
    FetchGuard,
    without_query,
)
from faultline.connectors.vendors.traces.files import TraceCapture, TraceFile, read_name
from faultline.connectors.vendors.traces.places import VENDOR

NAMES = re.compile(r"(?:.*[._-])?(?:traces?|profiles?)(?:[._-](?:urls?|links?))?", re.IGNORECASE)
"""Labels, annotations and titles of links that name a trace: `trace_url`, `profile`, `Trace`."""
MOST_LINKS = 16
"""Links of one alert that are looked at."""
_LISTED = re.compile(r"[\s,]+")
_TELLING = frozenset({"profile", "flight_recorder", "memory_snapshot", "nsight"})
"""Kinds that a file's name alone makes a trace, whatever the link is called."""


def trace_links(alert: Alert) -> tuple[str, ...]:
    """The links to traces among an alert's labels and links, each once; more than MOST_LINKS are
    left out."""
    return tuple(dict.fromkeys(_links(alert)))[:MOST_LINKS]


def _links(alert: Alert) -> Iterator[str]:
    candidates = [
        # A label may hold several addresses.
        (name, value)
        for name, text in alert.labels.items()
        for value in _LISTED.split(text)
    ]
    candidates += [(link.title, link.url) for link in alert.links]
    for name, value in candidates:
        if not value.startswith(("https://", "http://")):
            continue
        named = NAMES.fullmatch(name.strip()) is not None
        if named or _tells_by_its_name(value):
            yield value


def _tells_by_its_name(url: str) -> bool:
    capture = read_name(TraceFile(file_name(url), 0, datetime.now(UTC)))
    return capture is not None and capture.kind in _TELLING


def file_name(url: str) -> str:
    """The last part of the path, with the folder before it, in which a rank's number often
    stands."""
    try:
        path = unquote(urlsplit(url).path)
    # urlsplit refuses brackets that hold no IPv6 address.
    except ValueError:
        return "file"
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", ".", "..")]
    return "/".join(parts[-2:]) or "file"


@dataclass(frozen=True)
class LinkedFile:
    """One linked file: what its name tells, and its content in blocks."""

    guard: FetchGuard
    url: str
    most_bytes: int

    @property
    def shown(self) -> str:
        """Its address without what may open it."""
        return without_query(self.url)

    @property
    def capture(self) -> TraceCapture:
        """What its name tells; a link that was called a trace and has another name is read as a
        profile."""
        file = TraceFile(file_name(self.url), 0, datetime.now(UTC))
        other = TraceFile(f"{file.name}.trace.json", 0, file.modified)
        return read_name(file) or TraceCapture(other, "profile", "a linked file", file.modified)

    async def blocks(self, deadline: Deadline) -> AsyncIterator[bytes]:
        """Its content as it comes. Raises ConnectorError, BudgetExceeded."""
        too_large = BudgetExceeded("size of one trace file", f"{self.most_bytes:,} bytes")
        got = 0
        async with self.guard.open(self.url, deadline) as opened:
            if opened.size is not None and opened.size > self.most_bytes:
                raise too_large
            async for block in opened.blocks(deadline):
                got += len(block)
                # The announced size may be absent or wrong.
                if got > self.most_bytes:
                    raise too_large
                yield block


def guard_of(hosts: Sequence[str], networks: Sequence[str]) -> FetchGuard | None:
    """The guard that the settings describe, or None where they name no host. Raises
    SettingsError."""
    if not hosts:
        return None
    allowed = tuple(AllowedHost.read(host, "traces.hosts") for host in hosts)
    return FetchGuard(VENDOR, allowed, tuple(ipaddress.ip_network(network) for network in networks))
