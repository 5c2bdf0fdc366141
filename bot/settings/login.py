"""Settings of the login: the provider that is asked, and what its answer makes of somebody."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from faultline.connectors.shared.settings.settings_types import Names, Section, Url

OPEN_TO_ALL = ("https://accounts.google.com",)
"""Issuers that give everybody on earth an account."""


class LoginSettings(Section):
    """Login with company accounts by OpenID Connect, roles, sessions and the audit log:
    docs/access.md."""

    issuer: Url | None = None
    """The provider, as its discovery document names itself. Unset: only `server.access_token` opens
    the pages."""
    client_id: str | None = None
    """This installation's id at the provider."""
    client_secret: SecretStr | None = None
    """Secret. The client's secret. Unset for a public client."""
    provider_name: str = Field(default="your company account", min_length=1, max_length=60)
    """Text on the button after "Sign in with"."""
    scopes: Names = ("openid", "profile", "email")
    """Scopes to request. Okta and some others need `groups` as well for groups."""
    groups_claim: str = "groups"
    """The claim with groups or roles. Dots lead to nested ones: `realm_access.roles`."""
    viewers: Names = ()
    """Who may read, on the pages and in Slack: groups of the provider, e-mail addresses, and ids of
    Slack users (`U...`) and user groups (`S...`)."""
    responders: Names = ()
    """Those that may also ask, investigate, rate answers and mute."""
    admins: Names = ()
    """Those that may also mute critical alerts, and see the audit log and the settings. If nobody
    is named, admins and owners of the Slack workspace are admins in Slack."""
    default_role: Literal["none", "viewer", "responder", "admin"] = "none"
    """The role of everybody else who can log in at the provider. `none` lets nobody else in."""
    allowed_domains: Names = ()
    """Only verified e-mail addresses of these domains may log in, whatever their groups. Unset:
    all."""
    token_role: Literal["viewer", "responder", "admin"] = "admin"  # noqa: S105
    """The role of whoever presents `server.access_token`."""
    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    """The longest a login lasts."""
    idle_hours: float = Field(default=12, gt=0, le=24 * 31)
    """A login ends after this time without use."""
    audit_days: float = Field(default=180, ge=1, le=36_500)
    """How long the audit log is kept."""
    isolation: Literal["off", "teams"] = "off"
    """`teams`: only members of a team's `groups` and admins see its investigations:
    docs/access.md."""

    @model_validator(mode="after")
    def _lets_somebody_in(self) -> Self:
        if self.issuer is None:
            return self
        if not self.client_id:
            raise ValueError("login.issuer needs login.client_id")
        if "openid" not in self.scopes:
            raise ValueError("login.scopes must hold openid")
        # Over plain http, somebody on the way could forge the provider's answers.
        if not self.issuer.startswith("https://") and not _on_loopback(self.issuer):
            raise ValueError("login.issuer must begin with https://")
        named = (*self.viewers, *self.responders, *self.admins)
        if self.default_role == "none" and not named:
            raise ValueError(
                "nobody could log in: set login.default_role, or login.viewers, responders or "
                "admins"
            )
        if self.default_role != "none" and self.issuer in OPEN_TO_ALL and not self.allowed_domains:
            raise ValueError("everybody has an account there, so set login.allowed_domains")
        return self


def _on_loopback(issuer: str) -> bool:
    return issuer.startswith(("http://127.0.0.1:", "http://localhost:", "http://[::1]:"))
