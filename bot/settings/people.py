"""Settings of people: what they may do who are not named in the roles, and how much of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline.connectors.shared.settings.settings_types import Names, Section

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
