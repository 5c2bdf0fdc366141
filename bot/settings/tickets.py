"""Settings of trackers in which people have an issue made with an answer, and of code hosts where
they have a revert drafted: docs/tickets.md.

Each has a dedicated token, which writes. The read-only ones of the connectors are not used.
"""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.settings.settings_types import Names, Section, Url


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
