"""Who watches the requests to vendors: connectors tell, and know nothing of metrics or traces.

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

NotAsked = Literal["circuit", "deadline"]


@dataclass
class VendorRequest:
    """One request, or the reason why there was none. Times in seconds; `began` as `time.time()`."""

    vendor: str
    wanted_at: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""
    began: float = field(default_factory=time.time)
    waited_s: float = 0.0
    took_s: float = 0.0
    status: int | None = None
    """What the server answered; None where it did not, or where the vendor's client does not
    say."""
    failed: bool = False
    not_asked: NotAsked | None = None

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


def watch(told: Watch) -> None:
    """From now on tell `told` of every request of this process; it must be quick and must not
    raise."""
    if told not in _watches:
        _watches.append(told)


def unwatch(told: Watch) -> None:
    """Tell it no more."""
    with contextlib.suppress(ValueError):
        _watches.remove(told)


@contextlib.contextmanager
def watched(asked: VendorRequest) -> Iterator[None]:
    """The time of one request. An error passes, and is noted."""
    began, asked.began = time.monotonic(), time.time()
    asked.waited_s = began - asked.wanted_at
    try:
        yield
    except BaseException as error:
        asked.failed = not isinstance(error, BudgetExceeded) or error.what == "time"
        if asked.status is None:
            asked.status = _status(error)
        raise
    finally:
        asked.took_s = time.monotonic() - began
        tell(asked)


def tell(asked: VendorRequest) -> None:
    """Tell everybody who watches."""
    for told in tuple(_watches):
        told(asked)


def not_asked(vendor: str, error: Exception) -> None:
    """Tell that no request was made, and why."""
    reason: NotAsked = "deadline" if isinstance(error, BudgetExceeded) else "circuit"
    tell(VendorRequest(vendor, not_asked=reason))


def _status(error: BaseException) -> int | None:
    """Of a ConnectorError, of one within another's `error`, or of botocore's ClientError."""
    for one in (error, getattr(error, "error", None)):
        status = getattr(one, "status", None)
        if isinstance(status, int):
            return status
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    return status if isinstance(status, int) else None
