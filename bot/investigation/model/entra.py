"""Tokens of Microsoft Entra instead of a key, for Azure OpenAI's v1 API.

https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle: a token takes the place of
the key, and a new one is bought before it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from faultline.bot.settings.investigation import ModelSettings
from faultline.connectors.shared.auth.azure_token import (
    TOKEN_LIMITS,
    TOKEN_WITHIN_S,
    Credential,
    Tokens,
)
from faultline.connectors.shared.transport.circuit_breaker import Deadline


def entra_tokens(settings: ModelSettings) -> Callable[[], Awaitable[str]]:
    """A function that gives a token that is still good. It raises ConnectorError.

    With a client secret it is the application's, else that of the pod's workload identity, else
    that of the machine's managed identity.
    """
    tokens = Tokens(_credential(settings), TOKEN_LIMITS, "azure")

    async def token() -> str:
        return await tokens.token(settings.azure_audience, Deadline.after(TOKEN_WITHIN_S))

    return token


def _credential(settings: ModelSettings) -> Credential:
    credential = replace(Credential.of_environment(), identity_url=settings.azure_identity_url)
    if settings.azure_client_secret is not None:
        return Credential(
            settings.azure_login_url,
            settings.azure_identity_url,
            settings.azure_tenant_id,
            settings.azure_client_id,
            settings.azure_client_secret.get_secret_value(),
        )
    return replace(credential, client_id=settings.azure_client_id or credential.client_id)
