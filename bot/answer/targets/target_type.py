"""What declares a reply target, once, for the worker, `faultline check`, doctor and settings."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar, overload

from faultline.analysis.errors import SettingsError
from faultline.bot.answer.outcome import ReplyTarget
from faultline.bot.policy.reply_targets import (
    ReplyTargetDeclaration,
    TargetProblem,
    configured_targets,
)
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.connectors.shared.settings.settings_types import Section

__all__ = ["ReplyTargetType", "ReplyTargets", "TargetProblem", "configured_types"]

S = TypeVar("S", bound=Section)


class ReplyTargetType(ReplyTargetDeclaration[S]):
    """One reply target: what it says of itself, and how it is built and asked."""

    @abstractmethod
    def build(self, settings: Settings, store: Store, *, owner: str) -> ReplyTarget:
        """The target as these settings have it. `owner` names the process in claims of posts."""

    @abstractmethod
    async def check(self, settings: Settings) -> str:
        """Whether it can be reached and may be posted to: who we are there, or "".

        Raises FaultlineError.
        """


def configured_types(settings: Settings) -> list[ReplyTargetType[Any]]:
    """The configured targets. Raises SettingsError for a plug-in that cannot post."""
    target_types: list[ReplyTargetType[Any]] = []
    for configured_target in configured_targets(settings):
        if not isinstance(configured_target, ReplyTargetType):
            raise SettingsError(configured_target.name, "what declares it is no ReplyTargetType")
        target_types.append(configured_target)
    return target_types


class ReplyTargets(Sequence[ReplyTarget]):
    """Where answers are posted, in the order in which targets are declared.

    They are built by the first who asks for one: they load vendors' clients and what words an
    answer.
    """

    def __init__(self, settings: Settings, store: Store, *, owner: str) -> None:
        """Raises SettingsError for a plug-in that cannot post."""
        self._types = configured_types(settings)
        self._build = partial(_build, self._types, settings, store, owner)
        self._building = threading.Lock()
        self._built: list[ReplyTarget] | None = None

    def __len__(self) -> int:
        return len(self._types)

    @overload
    def __getitem__(self, index: int) -> ReplyTarget: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ReplyTarget]: ...

    def __getitem__(self, index: int | slice) -> ReplyTarget | Sequence[ReplyTarget]:
        # Two threads may be the first to ask: build the clients once.
        with self._building:
            if self._built is None:
                self._built = self._build()
            return self._built[index]


def _build(
    types: Sequence[ReplyTargetType[Any]], settings: Settings, store: Store, owner: str
) -> list[ReplyTarget]:
    return [
        target_type.build(target_type.scoped_settings(settings), store, owner=owner)
        for target_type in types
    ]
