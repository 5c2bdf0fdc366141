"""Who watches the requests to vendors. Connectors report them without knowing metrics or traces.

Each permit of a `RateLimiter` is one request. It is reported once it has ended, in the context of
whoever asked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from faultline.analysis.errors import BudgetExceeded

SkipReason = Literal["circuit", "deadline"]


@dataclass
class VendorRequest:
    """One request, or the reason why there was none. Times in seconds; `began` as `time.time()`."""

    vendor: str
    requested_at: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""
    began: float = field(default_factory=time.time)
    waited_s: float = 0.0
    took_s: float = 0.0
    status: int | None = None
    """What the server answered; None where it did not, or where the vendor's client does not
    say."""
    failed: bool = False
    skip_reason: SkipReason | None = None

    @property
    def status_class(self) -> str:
        """`2xx` to `5xx`, `429`, or `none`."""
        if self.status == 429:
            return "429"
        if self.status is not None and 100 <= self.status < 600:
            return f"{self.status // 100}xx"
        return "none" if self.failed else "2xx"


Watch = Callable[[VendorRequest], None]
_watches: list[Watch] = []


def watch(watcher: Watch) -> None:
    """From now on tell `watcher` of every request of this process; it must be quick and must not
    raise."""
    if watcher not in _watches:
        _watches.append(watcher)


@contextlib.contextmanager
def watched(request: VendorRequest) -> Iterator[None]:
    """The time of one request. An error passes, and is noted."""
    began, request.began = time.monotonic(), time.time()
    request.waited_s = began - request.requested_at
    try:
        yield
    except BaseException as error:
        # An answer over our byte budget is no failure of the server.
        request.failed = not isinstance(error, BudgetExceeded) or error.what == "time"
        if request.status is None:
            request.status = _status(error)
        raise
    finally:
        request.took_s = time.monotonic() - began
        tell(request)


def tell(request: VendorRequest) -> None:
    """Tell everybody who watches."""
    # Iterate over a copy, because another thread may add or remove a watcher.
    for watcher in tuple(_watches):
        watcher(request)


def tell_skipped(vendor: str, error: Exception) -> None:
    """Tell that no request was made, and why."""
    reason: SkipReason = "deadline" if isinstance(error, BudgetExceeded) else "circuit"
    tell(VendorRequest(vendor, skip_reason=reason))


def _status(error: BaseException) -> int | None:
    """Of a ConnectorError, of one within another's `error`, or of botocore's ClientError."""
    for candidate in (error, getattr(error, "error", None)):
        status = getattr(candidate, "status", None)
        if isinstance(status, int):
            return status
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    return status if isinstance(status, int) else None
