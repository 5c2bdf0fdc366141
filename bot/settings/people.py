"""Settings of people: how they log in, what they may do, and which team has what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        if not self.issuer.startswith("https://") and not self.issuer.startswith(
            ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
        ):
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


RoleOrNone = Literal["none", "viewer", "responder", "admin"]


class PeopleSettings(Section):
    """Who may act, in Slack and on the pages: docs/access.md. Those who are named stand in
    `login.viewers`, `login.responders` and `login.admins`."""

    members: RoleOrNone = "responder"
    """The role of full members of the bot's own Slack workspace who are not named."""
    guests: RoleOrNone = "none"
    """That of its guests, with one channel or several."""
    strangers: RoleOrNone = "none"
    """That of people of other companies, in channels shared by Slack Connect."""
    workspaces: Names = ()
    """Ids of further Slack workspaces (`T...`), or of the organisation (`E...`), whose members
    count as the bot's own."""
    investigations_per_hour: int = Field(default=20, ge=1, le=1000)
    """Investigations that one person may ask for within an hour."""
    mutes_per_day: int = Field(default=20, ge=1, le=1000)
    """Forms to mute alerts that one person may send within a day."""
    mute_hours: float = Field(default=24, gt=0, le=24 * 30)
    """The longest that a mute holds."""
    token_sees_private: bool = False
    """Whether `server.access_token` and API tokens open investigations of private Slack channels
    and direct messages. Who holds a token is not known, so no channel's members can be asked."""


class TeamSettings(Section):
    """A team: docs/reliability.md. What belongs to no team is one more team without a name."""

    services: Names = ()
    """Its services, by name or alias in the catalogue. A service belongs to one team."""
    channels: Names = ()
    """Ids of its Slack channels, for alerts of services without a team. A channel belongs to one
    team."""
    groups: Names = ()
    """Groups of the identity provider whose members belong to it."""
    share: float = Field(default=1, gt=0, le=100)
    """Its weight when workers are busy: a team with 2 gets twice as many slots as one with 1."""


def owners(
    teams: Mapping[str, TeamSettings], key: str, names: Mapping[str, str] | None = None
) -> Iterable[tuple[str, str, str]]:
    """Every thing of `services` or `channels` with its team: the word in lower case, as written,
    and the team.

    `names` are the catalogue's names by any name of a service in lower case.
    """
    for team, table in teams.items():
        for word in getattr(table, key):
            plain = word.strip().casefold()
            if plain:
                yield (names or {}).get(plain, plain).casefold(), word, team


def claimed_twice(teams: Mapping[str, TeamSettings], names: Mapping[str, str]) -> str | None:
    """What two teams claim, in a sentence; None when all is of one team alone."""
    for key, canonical_names in (("services", names), ("channels", None)):
        team_by_claim: dict[str, str] = {}
        for thing, word, team in owners(teams, key, canonical_names):
            if team_by_claim.setdefault(thing, team) != team:
                return (
                    f"{key[:-1]} {word[:80]!r} belongs to {team_by_claim[thing]!r} and to "
                    f"{team!r}; it "
                    f"can belong to one"
                )
    return None
