"""What takes long to load is made by the first who needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from faultline.bot.runtime import garbage
from faultline.bot.runtime.threads import in_thread

T = TypeVar("T")


class ByNeed(Generic[T]):
    """A value that is made once, in a thread: its modules are loaded then, and the event loop goes
    on."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._making = threading.Lock()
        self.made: T | None = None

    async def get(self) -> T:
        """The value. Raises what `make` raises; the next one tries again."""
        return self.made if self.made is not None else await in_thread(self._once)

    def _once(self) -> T:
        with self._making:
            # Look again under the lock: another thread may have made it.
            made = self.made
            if made is None:
                with garbage.loading():
                    made = self._make()
                self.made = made
            return made
