"""Settings of the login: the provider that is asked, and what its answer makes of somebody."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from connectors.settings_types import Names, Section, Url

OPEN_TO_ALL = ("https://accounts.google.com",)
"""Issuers that give everybody on earth an account."""


class LoginSettings(Section):
    """Login with a company's accounts by OpenID Connect, roles, sessions and the audit:
    docs/access.md."""

    issuer: Url | None = None
    """The provider, as its discovery document names itself. Unset: `server.access_token` alone
    opens the pages."""
    client_id: str | None = None
    """What the provider calls this installation."""
    client_secret: SecretStr | None = None
    """Secret. What the provider gave out with it; unset for a public client."""
    provider_name: str = Field(default="your company account", min_length=1, max_length=60)
    """What the button says after "Sign in with"."""
    scopes: Names = ("openid", "profile", "email")
    """What is asked for; Okta's and some others' groups need `groups` as well."""
    groups_claim: str = "groups"
    """The claim with groups or roles; dots lead inwards: `realm_access.roles`."""
    viewers: Names = ()
    """Groups, or verified e-mail addresses, of those who may read."""
    responders: Names = ()
    """Of those who may also judge, run again and mute."""
    admins: Names = ()
    """Of those who may also see who looked, and the settings."""
    default_role: Literal["none", "viewer", "responder", "admin"] = "none"
    """The role of everybody else whom the provider lets in. `none` lets nobody else in."""
    allowed_domains: Names = ()
    """When set, only verified e-mail addresses of these domains are let in, whatever their
    groups."""
    token_role: Literal["viewer", "responder", "admin"] = "admin"  # noqa: S105
    """The role of whoever presents `server.access_token`."""
    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    """A login lasts so long at most."""
    idle_hours: float = Field(default=12, gt=0, le=24 * 31)
    """A login ends when it was not used for so long."""
    audit_days: float = Field(default=180, ge=1, le=36_500)
    """Who looked at what is kept for so long."""
    isolation: Literal["off", "teams"] = "off"
    """`teams`: an investigation of a team is shown to members of its `groups` and to admins alone:
    docs/access.md."""

    @model_validator(mode="after")
    def _lets_somebody_in(self) -> Self:
        if self.issuer is None:
            return self
        if not self.client_id:
            raise ValueError("login.issuer needs login.client_id")
        if "openid" not in self.scopes:
            raise ValueError("login.scopes must hold openid")
        if not self.issuer.startswith("https://") and not _on_loopback(self.issuer):
            raise ValueError("login.issuer must begin with https://")
        named = (*self.viewers, *self.responders, *self.admins)
        if self.default_role == "none" and not named:
            raise ValueError(
                "nobody could sign in: set login.default_role, or login.viewers, responders or "
                "admins"
            )
        if self.default_role != "none" and self.issuer in OPEN_TO_ALL and not self.allowed_domains:
            raise ValueError("everybody has an account there: set login.allowed_domains")
        return self


def _on_loopback(issuer: str) -> bool:
    return issuer.startswith(("http://127.0.0.1:", "http://localhost:", "http://[::1]:"))
