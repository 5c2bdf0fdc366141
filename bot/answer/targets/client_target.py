"""A reply target whose client is loaded when somebody posts: the settings and the store load what
declares it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from faultline.bot.answer.targets.target_type import ReplyTargetType
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.connectors.shared.contract.plugins import load_object
from faultline.connectors.shared.settings.settings_types import Section

if TYPE_CHECKING:
    from faultline.bot.answer.targets.message_target import VendorMessage

S = TypeVar("S", bound=Section)


@dataclass(kw_only=True, eq=False)
class ClientTarget(ReplyTargetType[S]):
    """One vendor's. Fields are those of `ReplyTargetDeclaration`."""

    name: str
    label: str
    settings: type[S]
    needs: tuple[str, ...]
    client: str
    """What talks to it, as `module:class`, a `VendorMessage`."""

    def build(self, settings: Settings, store: Store, *, owner: str) -> VendorMessage:
        """The client."""
        return self._client()(self, settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Who we are there."""
        section = self.section(settings)
        assert section is not None, "only configured targets are asked"
        return await self._client().who(section)

    def _client(self) -> type[VendorMessage]:
        client = load_object(self.client)
        assert isinstance(client, type), self.client
        return client
