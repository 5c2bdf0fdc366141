"""Changes: harmless deploys, flags and settings all day, and the guilty ones of faults.

A harmless change and a guilty one look alike: same words, same kinds, same times of day.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from faultline.lab.shop.layout import CACHE, DATABASE
from faultline.lab.shop.running import Shop

AUTHORS = ("mira", "jonas", "dana", "ravi", "lea")
_TITLES = {
    "deploy": "Deploy {service} {version}",
    "config": "Config of {service}: update {setting}",
    "flag": "Flag {flag} of {service} turned on",
    "migration": "Migration {number} applied to {service}",
}
_SETTINGS = ("timeouts", "pool sizes", "log level", "endpoints", "limits")
_FLAGS = ("new-banner", "fast-path", "price-rules", "guest-mode", "dark-theme")


@dataclass(frozen=True)
class ShopChange:
    """One change as a change-event integration tells of it."""

    id: str
    service: str
    kind: str
    title: str
    author: str
    at: datetime


Publish = Callable[[ShopChange], None]


class ChangeDesk:
    """Makes changes, and publishes each one as it is made."""

    def __init__(self, shop: Shop, rng: random.Random, publish: Publish) -> None:
        self._shop = shop
        self._rng = rng
        self._publish = publish
        self._versions: dict[str, list[int]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self.made: list[ShopChange] = []

    def publish(self, service: str, kind: str) -> ShopChange:
        """Tell of a change; whoever calls makes it."""
        # Two threads make changes: the harmless ones of the day, and the guilty ones of faults.
        with self._lock:
            self._count += 1
            number = self._count
        title = _TITLES[kind].format(
            service=service,
            version=self._next_version(service) if kind == "deploy" else "",
            setting=self._rng.choice(_SETTINGS),
            flag=self._rng.choice(_FLAGS),
            number=f"{240 + number:04d}",
        )
        change = ShopChange(
            f"CE{number:05d}", service, kind, title, self._rng.choice(AUTHORS), datetime.now(UTC)
        )
        self.made.append(change)
        self._publish(change)
        return change

    def harmless(self, avoid: str = "") -> ShopChange:
        """A random change that does nothing, of any service but the avoided one. A deploy really
        replaces the replicas."""
        # Three of six are deploys, as most changes of a shop are.
        kind = self._rng.choice(("deploy", "deploy", "deploy", "config", "flag", "migration"))
        candidates = []
        for name in self._changed_by(kind):
            if name != avoid:
                candidates.append(name)
        # A migration is of the database alone: draw another kind where that is to be avoided.
        if not candidates:
            return self.harmless(avoid)
        service = self._rng.choice(candidates)
        change = self.publish(service, kind)
        if kind == "deploy":
            self._shop.deploy(service, self.version(service))
        return change

    @contextmanager
    def harmless_all_day(
        self,
        mean_s: float,
        rng: random.Random,
        changing: threading.Lock,
        avoid: Callable[[], str] = str,
    ) -> Iterator[None]:
        """Harmless changes at random times, from another thread; none while `changing` is held, and
        none of the service to avoid just then: a deploy would repair it."""
        stop = threading.Event()

        def change() -> None:
            while not stop.wait(rng.expovariate(1 / mean_s)):
                with changing:
                    self.harmless(avoid())

        thread = threading.Thread(target=change, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=30)

    def _changed_by(self, kind: str) -> list[str]:
        """What a harmless change of that kind may be about."""
        if kind == "migration":
            return [DATABASE]
        ours = [service.name for service in self._shop.services if not service.external]
        if kind == "config" and not self._shop.options.small:
            ours.append(CACHE)
        return ours

    def version(self, service: str) -> str:
        """What runs now."""
        major, minor, patch = self._version_numbers(service)
        return f"v{major}.{minor}.{patch}"

    def _next_version(self, service: str) -> str:
        numbers = self._version_numbers(service)
        if self._rng.random() < 0.4:
            numbers[1], numbers[2] = numbers[1] + 1, 0
        else:
            numbers[2] += 1
        return self.version(service)

    def _version_numbers(self, service: str) -> list[int]:
        first = [self._rng.randint(1, 4), self._rng.randint(0, 20), self._rng.randint(0, 9)]
        return self._versions.setdefault(service, first)
