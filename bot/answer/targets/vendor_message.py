"""One message or ticket at a vendor whose API takes JSON over HTTP, with a token that writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import httpx

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.message_target import MessageTarget
from faultline.bot.answer.targets.posting import REQUEST_TIMEOUT_S
from faultline.connectors.shared.settings.settings_types import Section


class VendorMessage(MessageTarget):
    """The part that is the same for every such vendor."""

    @classmethod
    @abstractmethod
    async def who(cls, settings: Any) -> str:
        """The owner of the token. Raises FaultlineError."""

    @property
    def vendor_settings(self) -> Any:
        """The section."""
        section = self._declared.section(self._settings)
        assert section is not None, "only configured targets are used"
        return section


async def call(
    url: str, headers: Mapping[str, str], method: str, path: str, **more: Any
) -> httpx.Response:
    """One request. Raises what httpx raises."""
    async with httpx.AsyncClient(headers=headers, timeout=REQUEST_TIMEOUT_S) as http:
        return (await http.request(method, f"{url}{path}", **more)).raise_for_status()


async def identity_of(label: str, request: Any) -> Any:
    """The JSON of the question who we are. Raises FaultlineError."""
    try:
        return (await request).json()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise FaultlineError(f"{label}: the token was refused with {status}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise FaultlineError(f"{label}: no usable answer ({type(error).__name__})") from error


def token_of(section: Section) -> str:
    """The token of a configured section."""
    token: str = section.token.get_secret_value()  # type: ignore[attr-defined]
    return token
