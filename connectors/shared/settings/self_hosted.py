"""How servers that one runs oneself, or that a cloud runs for one, are reached: one set of keys for
all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from faultline.connectors.shared.settings.limits import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class SelfHostedSettings(ConnectorSettings):
    """The keys that say where such a server is and which user asks it."""

    url: Url | None = None
    """Base of the HTTP API. Unset: it is not asked."""
    token: SecretStr | None = None
    """Secret. Bearer token, or with `username` the password of Basic authentication."""
    token_file: Path | None = None
    """A file that holds the token, instead of `token`. It is read again when it changes."""
    username: str | None = Field(default=None, pattern=r"^[^:\r\n]*$")
    """User name of Basic authentication, such as the instance's number in Grafana Cloud."""
    tenant: str | None = Field(default=None, pattern=r"^[!-~]{1,500}$")
    """Sent as `X-Scope-OrgID`, for servers with several tenants."""
    ca_file: Path | None = None
    """Certificates (PEM) of the authority that signed the server's. Unset: those of the system."""
    client_cert_file: Path | None = None
    """Client certificate (PEM), for servers that require one."""
    client_key_file: Path | None = None
    """Its key. Unset: it is in `client_cert_file` too."""
    cloud: Literal["aws", "google", "azure"] | None = None
    """The cloud that runs the server. The credentials of the bot's machine or pod are used instead
    of a token. `aws` signs each request, for Amazon Managed Service for Prometheus."""
    aws_region: str | None = None
    """Unset: taken from the address, such as `aps-workspaces.eu-west-1.amazonaws.com`."""
    aws_service: str = "aps"
    """The service that requests are signed for."""

    @model_validator(mode="after")
    def _single_login(self) -> SelfHostedSettings:
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file are both set: set only one of them")
        if self.cloud is not None and (self.token is not None or self.token_file is not None):
            raise ValueError("a token and cloud are both set: set only one of them")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
        return self
