"""The keys that the sections of connectors share: limits, servers, databases, CI services."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from faultline.connectors.shared.settings.settings_types import Names, Section, Url

Tls = Literal["verify", "require", "off"]


@dataclass(frozen=True)
class Limits:
    """What one connector may take for one investigation."""

    deadline_s: float = 20.0
    max_bytes: int = 32 * 1024 * 1024
    max_rows: int = 500_000
    requests_per_s: float = 10.0
    concurrency: int = 4


class ConnectorSettings(Section):
    """The keys that the sections of all connectors have."""

    deadline_s: float | None = Field(default=None, ge=2, le=600)
    """Seconds it may collect for one investigation. Unset: as on the connector's page."""
    max_mb: float | None = Field(default=None, gt=0, le=65_536)
    """MiB it may read for one investigation. Unset: as on the connector's page."""

    def limits(self, usual: Limits) -> Limits:
        """The connector's usual limits with what the settings say."""
        if self.deadline_s is not None:
            usual = replace(usual, deadline_s=self.deadline_s)
        if self.max_mb is not None:
            usual = replace(usual, max_bytes=round(self.max_mb * 1024 * 1024))
        return usual


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


@dataclass(frozen=True)
class DatabaseAddress:
    """Where a server is, and the user who asks it."""

    host: str
    port: int
    username: str | None
    password: str | None
    tls: Tls
    ca_file: Path | None = None

    @property
    def address(self) -> str:
        """For humans."""
        return f"{self.host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """How it is encrypted. Raises OSError for a file that cannot be read."""
        if self.tls == "off":
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.tls == "require":
            # This order: `ssl` refuses CERT_NONE while the host name is checked.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class ServerIdentity(ConnectorSettings):
    """The key that says whose a server is."""

    service: str | None = Field(default=None, min_length=1, max_length=120)
    """The service that this server is, by its name in the catalogue, such as `orders-db`. Unset:
    the instance's `name`, else the host."""

    def of_service(self, host: str) -> str:
        """The service that facts about this server belong to."""
        return self.service or self.instance.name or host


class HttpServerSettings(SelfHostedSettings, ServerIdentity):
    """The keys of a server that tells of itself over HTTP."""


class DatabaseSettings(ServerIdentity):
    """The keys that say where a database is and which user asks it."""

    host: str | None = Field(default=None, pattern=r"^[^\s@?#;,]{1,255}$")
    """Its host name or address. Unset: it is not asked."""
    username: str | None = Field(default=None, min_length=1, max_length=128)
    """The user, who should be able to read statistics and nothing else."""
    password: SecretStr | None = None
    """Secret. The user's password."""
    tls: Tls = "verify"
    """`verify` checks the server's certificate and its name, `require` only encrypts, `off` sends
    everything in the clear."""
    ca_file: Path | None = None
    """Certificates (PEM) of the authority that signed the server's. Unset: those of the system."""

    @property
    def plain_password(self) -> str | None:
        """The password, where there is one."""
        return self.password.get_secret_value() if self.password is not None else None

    def address(self, host: str, port: int) -> DatabaseAddress:
        """The server of these settings."""
        return DatabaseAddress(
            host, port, self.username, self.plain_password, self.tls, self.ca_file
        )


class BuildSettings(ConnectorSettings):
    """The keys of all CI services."""

    token: SecretStr | None = None
    """Secret. Token that may read builds. Unset: it is not used."""
    branches: Names = ("main", "master")
    """Branches whose builds count."""
    deploys: Names = ()
    """Names of the pipelines that deploy. `*` stands for anything. Unset: those whose name says
    deploy, release, rollout and the like."""
    environments: Names = ()
    """Environments whose deployments count. Unset: all but those whose name says staging, test,
    development and the like."""
