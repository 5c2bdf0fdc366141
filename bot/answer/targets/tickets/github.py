"""GitHub: issues of one repository, by its REST API.

Source: GitHub's OpenAPI document. An issue is found again by a comment in its body that is not
shown, among the newest of the repository.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx

from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.tickets.tickets import Tickets, marker, name_in, ref_of
from faultline.bot.settings.reply_targets import GitHubIssuesSettings

MAX_ISSUES = 100


class GitHubTickets(Tickets):
    """Issues of one repository."""

    @classmethod
    async def who(cls, settings: GitHubIssuesSettings) -> str:
        """The repository, which the token can read."""
        who = await identity_of("GitHub", _call(settings, "GET", ""))
        return str(who.get("full_name", settings.repository))

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among those changed since."""
        params = {
            "state": "all",
            "since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "per_page": str(MAX_ISSUES),
        }
        for issue in (await _call(self.vendor_settings, "GET", "/issues", params=params)).json():
            if marker(key) in (issue["body"] or ""):
                return _ref(issue)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Open it."""
        fields = _fields(text, key) | {"labels": list(self.vendor_settings.labels)}
        return _ref((await _call(self.vendor_settings, "POST", "/issues", json=fields)).json())

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace title and body."""
        path = f"/issues/{name_in(ref).removeprefix('#')}"
        # A ticket's address is its key, so the marker survives each edit.
        await _call(self.vendor_settings, "PATCH", path, json=_fields(text, address))


def _fields(text: str, key: str) -> dict[str, Any]:
    ticket = TextParts.of(text)
    return {"title": ticket.title, "body": f"{ticket.markdown}\n\n{marker(key)}"}


async def _call(
    settings: GitHubIssuesSettings, method: str, path: str, **more: Any
) -> httpx.Response:
    headers = {
        "Authorization": f"Bearer {token_of(settings)}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return await call(f"{settings.url}/repos/{settings.repository}", headers, method, path, **more)


def _ref(issue: Any) -> str:
    return ref_of(f"#{issue['number']}", issue["html_url"])
