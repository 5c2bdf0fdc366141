"""What declares a reply target, once, for the worker, `faultline check`, doctor and settings."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from analysis.errors import SettingsError
from bot.answer.outcome import ReplyTarget
from bot.policy.reply_targets import (
    ReplyTargetDeclaration,
    TargetProblem,
    configured_targets,
)
from bot.settings import Settings
from bot.store.store import Store
from connectors.settings_types import Section

__all__ = ["ReplyTargetType", "TargetProblem", "configured_types", "reply_targets"]

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
    found: list[ReplyTargetType[Any]] = []
    for one in configured_targets(settings):
        if not isinstance(one, ReplyTargetType):
            raise SettingsError(one.name, "what declares it is no ReplyTargetType")
        found.append(one)
    return found


def reply_targets(settings: Settings, store: Store, *, owner: str) -> list[ReplyTarget]:
    """Where answers are posted, in the order in which targets are declared."""
    built: list[ReplyTarget] = []
    for one in configured_types(settings):
        built.append(one.build(one.own_settings(settings), store, owner=owner))
    return built
