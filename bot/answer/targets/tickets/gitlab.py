"""GitLab: issues of one project, by its REST API v4.

Source: docs.gitlab.com, "Issues API". An issue is found again by a comment in its description that
is not shown, among those created since.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.tickets.tickets import Tickets, marker, name_in, ref_of
from faultline.bot.settings.reply_targets import GitLabIssuesSettings

MAX_ISSUES = 100


class GitLabTickets(Tickets):
    """Issues of one project."""

    @classmethod
    async def who(cls, settings: GitLabIssuesSettings) -> str:
        """The project, which the token can read."""
        who = await identity_of("GitLab", _call(settings, "GET", ""))
        return str(who.get("path_with_namespace", settings.project))

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among those created since."""
        params = {
            "scope": "all",
            "created_after": since.isoformat(),
            "per_page": str(MAX_ISSUES),
        }
        for issue in (await _call(self.vendor_settings, "GET", "/issues", params=params)).json():
            if marker(key) in (issue["description"] or ""):
                return _ref(issue)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Open it."""
        fields = _fields(text, key) | {
            "confidential": self.vendor_settings.confidential,
            "labels": list(self.vendor_settings.labels),
        }
        return _ref((await _call(self.vendor_settings, "POST", "/issues", json=fields)).json())

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace title and description."""
        path = f"/issues/{name_in(ref).removeprefix('#')}"
        # A ticket's address is its key, so the marker survives each edit.
        await _call(self.vendor_settings, "PUT", path, json=_fields(text, address))


def _fields(text: str, key: str) -> dict[str, Any]:
    ticket = TextParts.of(text)
    return {"title": ticket.title, "description": f"{ticket.markdown}\n\n{marker(key)}"}


async def _call(
    settings: GitLabIssuesSettings, method: str, path: str, **more: Any
) -> httpx.Response:
    headers = {"PRIVATE-TOKEN": token_of(settings)}
    project = quote(settings.project or "", safe="")
    return await call(f"{settings.url}/api/v4/projects/{project}", headers, method, path, **more)


def _ref(issue: Any) -> str:
    return ref_of(f"#{issue['iid']}", issue["web_url"])
