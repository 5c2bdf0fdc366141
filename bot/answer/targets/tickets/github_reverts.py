"""GitHub: draft pull requests that revert a merged one, by its GraphQL API.

Sources: the mutation `revertPullRequest` of GitHub's GraphQL schema, which takes `draft`; for the
rest GitHub's OpenAPI document. GitHub reverts merge and squash commits alike, and pull requests
alone: a commit counts only where it is the merge of one. A draft is found again by a comment in its
body that is not shown, among the newest of the repository.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx

from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.tickets.revert_target import BlamedChange
from faultline.bot.answer.targets.tickets.tickets import Reverts, body_of, mark_of, name_in, ref_of
from faultline.bot.settings.reply_targets import GitHubRevertsSettings

REVERT = (
    "mutation Revert($input: RevertPullRequestInput!) "
    "{ revertPullRequest(input: $input) { revertPullRequest { number url } } }"
)
MAX_PULLS = 100


class GitHubReverts(Reverts):
    """Pull requests of the named repositories."""

    @classmethod
    async def who(cls, settings: GitHubRevertsSettings) -> str:
        """The repositories, which the token can read."""
        names = []
        for name in settings.repositories:
            who = await identity_of(f"GitHub {name}", _call(settings, "GET", f"/repos/{name}"))
            names.append(str(who.get("full_name", name)))
        return ", ".join(names)

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among the newest. Only who may push to the repository can open one that counts."""
        project = self._change(address).project
        params = {
            "state": "all",
            "sort": "created",
            "direction": "desc",
            "per_page": str(MAX_PULLS),
        }
        answer = await _call(self.vendor_settings, "GET", f"/repos/{project}/pulls", params=params)
        for pull in answer.json():
            is_ours = mark_of(address) in (pull["body"] or "")
            # A fork's pull request may copy the mark: only branches of the repository itself count.
            home = (pull["head"].get("repo") or {}).get("full_name")
            if is_ours and home == project:
                return ref_of(f"#{pull['number']}", pull["html_url"])
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Draft it."""
        change = self._change(address)
        pull = await self._pull(change)
        revert_input = {
            "pullRequestId": pull["node_id"],
            "draft": True,
            "body": body_of(text, address),
        }
        body = {"query": REVERT, "variables": {"input": revert_input}}
        # A GitHub Enterprise Server has REST at /api/v3 and GraphQL at /api/graphql.
        url = self.vendor_settings.url.removesuffix("/v3") + "/graphql"
        response = (await call(url, _headers(self.vendor_settings), "POST", "", json=body)).json()
        # GraphQL answers errors with status 200.
        if response.get("errors"):
            why = str(response["errors"][0].get("message", "no reason given"))
            by_hand = f"revert #{pull['number']} by hand. GitHub says: {why}"
            raise self._refused(by_hand, unchanged=False)
        made = response["data"]["revertPullRequest"]["revertPullRequest"]
        return ref_of(f"#{made['number']}", made["url"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace the body."""
        path = f"/repos/{self._change(address).project}/pulls/{name_in(ref).removeprefix('#')}"
        await _call(self.vendor_settings, "PATCH", path, json={"body": body_of(text, address)})

    async def _pull(self, change: BlamedChange) -> Any:
        """The merged pull request to revert. Raises ConnectorError."""
        home = f"/repos/{change.project}"
        if change.number is not None:
            pull = (
                await _call(self.vendor_settings, "GET", f"{home}/pulls/{change.number}")
            ).json()
            if not pull["merged"]:
                raise self._refused(f"#{change.number} is not merged")
            return pull
        path = f"{home}/commits/{change.commit}/pulls"
        for pull in (await _call(self.vendor_settings, "GET", path)).json():
            if pull["merged_at"] and pull["merge_commit_sha"] == change.commit:
                return pull
        raise self._refused(
            f"commit {(change.commit or '')[:12]} is not the merge of a pull request, and GitHub "
            "reverts those alone. Use git revert"
        )


def _headers(settings: GitHubRevertsSettings) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token_of(settings)}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


async def _call(
    settings: GitHubRevertsSettings, method: str, path: str, **more: Any
) -> httpx.Response:
    return await call(settings.url, _headers(settings), method, path, **more)
