"""What the settings of databases and brokers share: how a server is reached, and whose it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from faultline.connectors.shared.settings.limits import ConnectorSettings
from faultline.connectors.shared.settings.self_hosted import SelfHostedSettings

Tls = Literal["verify", "require", "off"]


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

    def of_service(self, instance: str, host: str) -> str:
        """The service that facts about this server belong to."""
        return self.service or instance or host


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
