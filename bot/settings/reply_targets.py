"""Every reply target: one line for each of Faultline's own, and those that other packages bring.

The list is in the lowest room because the settings hold the targets' sections. They know of a
target no more than its name and the model of its section; `faultline.bot.policy.reply_targets`
knows the rest. The tokens of these sections write. Workers alone need them, and the read-only ones
of the connectors are not used.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.contract.plugins import Plugin, installed, load_plugin
from faultline.connectors.shared.settings.settings_types import Names, Section, Url

GROUP = "faultline.reply_targets"
"""The group of entry points for reply targets."""
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "slack": "faultline.bot.answer.targets.slack.target:TARGET",
        "pagerduty": "faultline.bot.answer.targets.pagerduty.target:TARGET",
        "jira_issues": "faultline.bot.answer.targets.tickets.target:JIRA",
        "linear_issues": "faultline.bot.answer.targets.tickets.target:LINEAR",
        "github_issues": "faultline.bot.answer.targets.tickets.target:GITHUB",
        "msteams": "faultline.bot.answer.targets.chats.target:MSTEAMS",
        "mattermost": "faultline.bot.answer.targets.chats.target:MATTERMOST",
        "discord": "faultline.bot.answer.targets.chats.target:DISCORD",
        "answer_webhook": "faultline.bot.answer.targets.chats.target:ANSWER_WEBHOOK",
        "email": "faultline.bot.answer.targets.chats.target:EMAIL",
        "gitlab_issues": "faultline.bot.answer.targets.tickets.target:GITLAB",
        "github_reverts": "faultline.bot.answer.targets.tickets.revert_target:GITHUB",
        "gitlab_reverts": "faultline.bot.answer.targets.tickets.revert_target:GITLAB",
    }
)
"""Faultline's own reply targets, as `module:attribute` by name."""


class SectionOwner:
    """A reply target as far as the settings know it."""

    name: str
    """The section's name."""
    settings: type[Any]
    """The section's model, a subclass of `Section`."""


def sections_of_reply_targets(unknown: Iterable[str]) -> Mapping[str, SectionOwner]:
    """The reply targets among these names of sections; a name of no target is left out.

    Raises SettingsError for a plug-in that cannot be used.
    """
    requested_unknown = sorted(set(unknown))
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not requested_unknown:
        return {}
    plugins = installed(GROUP)
    section_owners: dict[str, SectionOwner] = {}
    for name in requested_unknown:
        plugin = plugins.get(name)
        if name in BUILT_IN:
            plugin = Plugin(name, BUILT_IN[name], "faultline")
        if plugin is not None:
            declared = load_plugin(plugin, SectionOwner)
            whose = f"{plugin.package} ({plugin.target})"
            if declared.name != plugin.name:
                raise SettingsError(
                    plugin.name, f"{whose} declares it under the name {declared.name!r}"
                )
            if not issubclass(declared.settings, Section):
                raise SettingsError(plugin.name, f"{whose} has no model for its settings section")
            section_owners[name] = declared
    return section_owners


TEAMS_HOSTS = (
    "smba.trafficmanager.net",
    "smba.infra.gcc.teams.microsoft.com",
    "smba.infra.gov.teams.microsoft.us",
    "smba.infra.dod.teams.microsoft.us",
)
"""Hosts of Microsoft's connector service for Teams, in its public and its government clouds."""
THREAD = ";messageid="
"""In Teams' id of a channel's thread, before that of its first message."""


class ChatSettings(Section):
    """What every chat has."""

    channel: str | None = None
    """Id of the channel for answers."""


class ChannelsSettings(ChatSettings):
    """With a token for more than one channel."""

    channels: Mapping[str, str] = Field(default_factory=dict)
    """Channels of services: the catalogue's name of the service to the id."""


class MsTeamsSettings(ChannelsSettings):
    """Answers in Microsoft Teams, by a bot: docs/chats.md."""

    client_secret: SecretStr | None = None
    """Secret. A client secret of the bot's app registration."""
    client_id: str | None = None
    """The app's (client) id."""
    tenant: str | None = None
    """The tenant's id, or `botframework.com` for a bot of type *Multi Tenant*."""
    tenant_id: str | None = None
    """Id (UUID) of the tenant whose people may mention the bot and click its buttons, once its
    messaging endpoint is set. Unset: it hears nobody. Servers need the client secret then, too."""
    questions_per_hour: int = Field(default=40, ge=1, le=1000)
    """Questions answered in one thread within an hour."""
    further_per_hour: int = Field(default=5, ge=0, le=100)
    """Follow-ups that the questions of one thread may start within an hour."""
    team: str | None = None
    """Id of the Microsoft 365 group behind the team. Set it where the app may read the channel's
    messages: a message whose sending was not confirmed is then looked for before it is sent again.
    """
    service_url: Url = "https://smba.trafficmanager.net/teams"
    """The connector service. Only Microsoft's hosts are taken, and those of `service_hosts`."""
    service_hosts: Names = ()
    """Further hosts that may get the bot's token."""
    login_url: Url = "https://login.microsoftonline.com"
    """Where tokens are issued."""
    audience: Url = "https://api.botframework.com"
    """Whom tokens are for. In the US government's clouds `https://api.botframework.us`."""
    openid_url: Url = "https://login.botframework.com/v1/.well-known/openidconfiguration"
    """Who signs what is sent to the bot. In the US government's clouds
    `https://login.botframework.azure.us/v1/.well-known/openidconfiguration`."""
    graph_url: Url = "https://graph.microsoft.com"
    """Microsoft Graph, only used with `team`."""

    @model_validator(mode="after")
    def _check_host(self) -> MsTeamsSettings:
        parts = urlsplit(self.service_url)
        is_service_host = parts.hostname in self.service_hosts
        # The bot's token goes there. `netloc` holds a port and a user too, so neither slips in.
        if not is_service_host and (parts.scheme != "https" or parts.netloc not in TEAMS_HOSTS):
            raise ValueError(
                "service_url is none of Microsoft's over https: name its host in service_hosts"
            )
        return self


class MattermostSettings(ChannelsSettings):
    """Answers in Mattermost, by a bot account: docs/chats.md."""

    url: Url | None = None
    """The server, `https://chat.acme.com`."""
    token: SecretStr | None = None
    """Secret. An access token of the bot account."""


class DiscordSettings(ChatSettings):
    """Answers in Discord, by a channel's webhook: docs/chats.md."""

    channel: str | None = None
    """The channel's name or id, by which rates and quiet hours go. Messages go where the webhook
    leads."""
    webhook_url: SecretStr | None = None
    """Secret. The webhook's address, which lets anybody post there."""


class AnswerWebhookSettings(Section):
    """Answers as signed JSON to any system: docs/chats.md."""

    url: Url | None = None
    """Where each revision of an answer is posted."""
    secret: SecretStr | None = None
    """Secret. The key of the signature: `whsec_` and at least 24 bytes in base64."""

    @field_validator("secret")
    @classmethod
    def _usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(signing_key(value)) < SHORTEST_KEY:
            raise ValueError("must be whsec_ and at least 24 bytes in base64")
        return value


class EmailSettings(Section):
    """Answers by e-mail: docs/chats.md."""

    host: str | None = None
    """The SMTP server."""
    port: int = 587
    """Its port."""
    security: Literal["starttls", "tls"] = "starttls"
    """How the session is encrypted. `tls` from its first byte, usually on port 465."""
    user: str | None = None
    """Name to log in with. Unset: the server takes messages without a login."""
    password: SecretStr | None = None
    """Secret. The user's password."""
    sender: str | None = None
    """Address of the sender: `Faultline <faultline@acme.com>`."""
    to: Names = ()
    """Addresses that get the answers. Unset: none are sent."""
    services: Mapping[str, Names] = Field(default_factory=dict)
    """Addresses of services, instead of `to`: the catalogue's name of the service to addresses."""
    ca_file: Path | None = None
    """Certificates that the server's is checked with, in PEM form. Unset: the system's."""

    @model_validator(mode="after")
    def _addresses(self) -> EmailSettings:
        for address in (*self.to, *(a for some in self.services.values() for a in some)):
            # A line end in an address would add a header to the message.
            if not ADDRESS.fullmatch(address):
                raise ValueError(f"{address[:80]!r} is no address such as ops@acme.com")
        if self.sender is not None and not SENDER.fullmatch(self.sender):
            raise ValueError("sender must be an address, or a name and <address>")
        return self


ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[A-Za-z0-9.-]+")
SENDER = re.compile(rf"[\w .-]{{1,80}} <{ADDRESS.pattern}>|{ADDRESS.pattern}")
SHORTEST_KEY = 24
"""Bytes, by Standard Webhooks."""


def signing_key(secret: SecretStr) -> bytes:
    """The bytes behind `whsec_`; none where they are no base64."""
    try:
        # Without `validate`, characters outside of base64 are skipped.
        return base64.b64decode(secret.get_secret_value().removeprefix("whsec_"), validate=True)
    except ValueError:
        return b""


class JiraIssuesSettings(Section):
    """Issues in Jira Cloud, made on a click: docs/tickets.md."""

    url: Url | None = None
    """The site, `https://acme.atlassian.net`."""
    project: str | None = None
    """Key of the project. Unset: no issues are offered."""
    issue_type: str = "Task"
    """Name of the issues' type in that project."""
    labels: Names = ("faultline",)
    """Labels of new issues."""
    email: str | None = None
    """Address of the account that the token belongs to."""
    token: SecretStr | None = None
    """Secret. An API token that may browse the project, create issues in it and edit them."""


class LinearIssuesSettings(Section):
    """Issues in Linear, made on a click: docs/tickets.md."""

    url: Url = "https://api.linear.app/graphql"
    """The GraphQL API."""
    team: str | None = None
    """Id of the team (a UUID). Unset: no issues are offered."""
    token: SecretStr | None = None
    """Secret. A personal API key, limited to this team, that may write issues."""


class GitHubIssuesSettings(Section):
    """Issues on GitHub, made on a click: docs/tickets.md."""

    url: Url = "https://api.github.com"
    """REST API. For GitHub Enterprise Server: `https://<host>/api/v3`."""
    repository: str | None = None
    """`owner/name`. Whoever reads the repository reads the answer. Unset: no issues are offered."""
    labels: Names = ()
    """Labels of new issues."""
    token: SecretStr | None = None
    """Secret. A fine-grained token of this repository with *Issues: read and write*."""


class GitLabIssuesSettings(Section):
    """Issues on GitLab, made on a click: docs/tickets.md."""

    url: Url = "https://gitlab.com"
    """The server."""
    project: str | None = None
    """`group/name`, or the project's number. Unset: no issues are offered."""
    confidential: bool = True
    """Whether new issues are confidential."""
    labels: Names = ()
    """Labels of new issues."""
    token: SecretStr | None = None
    """Secret. A project access token with the scope `api`, role Reporter or Planner."""


class GitHubRevertsSettings(Section):
    """Draft pull requests on GitHub that revert a change, made on a click: docs/tickets.md."""

    url: Url = "https://api.github.com"
    """REST API. For GitHub Enterprise Server: `https://<host>/api/v3`."""
    repositories: Names = ()
    """`owner/name` of each repository in which reverts may be drafted. Whoever reads it reads the
    answer. Unset: no reverts are offered."""
    token: SecretStr | None = None
    """Secret. A fine-grained token of these repositories with *Contents* and *Pull requests: read
    and write*."""


class GitLabRevertsSettings(Section):
    """Draft merge requests on GitLab that revert a change, made on a click: docs/tickets.md."""

    url: Url = "https://gitlab.com"
    """The server."""
    projects: Names = ()
    """`group/name` of each project in which reverts may be drafted. Whoever reads it reads the
    answer. Unset: no reverts are offered."""
    token: SecretStr | None = None
    """Secret. A project or group access token with the scope `api`, role Developer."""
