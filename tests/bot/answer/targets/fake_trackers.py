"""Jira, Linear, GitHub and GitLab on loopback, as far as issues go, with their documented answers.

Each issue keeps what was written to it, version by version.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "a-token-that-writes"
BASIC = "Basic YW5uQGV4YW1wbGUuY29tOmEtdG9rZW4tdGhhdC13cml0ZXM="


@dataclass
class FakeIssue:
    """One issue: its fields as they were sent, the newest last."""

    number: int
    versions: list[dict[str, Any]]

    @property
    def fields(self) -> dict[str, Any]:
        """As they are now."""
        merged: dict[str, Any] = {}
        for one in self.versions:
            merged |= one
        return merged

    @property
    def text(self) -> str:
        """Everything that was written to it."""
        return json.dumps(self.versions, ensure_ascii=False)


@dataclass
class FakeTrackers:
    """All four. `lose_answers` makes the next issues, and answers 502 instead."""

    issues: list[FakeIssue] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    lose_answers: int = 0
    refuse_with: int | None = None
    url: str = ""

    @property
    def app(self) -> Starlette:
        """The server."""
        return Starlette(
            routes=[
                Route("/jira/rest/api/3/{rest:path}", self._jira, methods=["GET", "POST", "PUT"]),
                Route("/linear", self._linear, methods=["POST"]),
                Route("/github/repos/acme/ops", self._about),
                Route("/github/repos/acme/ops/issues", self._github, methods=["GET", "POST"]),
                Route("/github/repos/acme/ops/issues/{n}", self._github, methods=["PATCH"]),
                Route("/gitlab/api/v4/{rest:path}", self._gitlab, methods=["GET", "POST", "PUT"]),
            ]
        )

    def sections(self) -> dict[str, dict[str, Any]]:
        """Settings that lead here."""
        return {
            "jira_issues": {
                "url": f"{self.url}/jira",
                "project": "OPS",
                "email": "ann@example.com",
                "token": TOKEN,
            },
            "linear_issues": {"url": f"{self.url}/linear", "team": "T1", "token": TOKEN},
            "github_issues": {
                "url": f"{self.url}/github",
                "repository": "acme/ops",
                "labels": ["incident"],
                "token": TOKEN,
            },
            "gitlab_issues": {
                "url": f"{self.url}/gitlab",
                "project": "acme/ops",
                "labels": ["incident"],
                "token": TOKEN,
            },
        }

    def _made(self, fields: dict[str, Any]) -> FakeIssue:
        self.issues.append(FakeIssue(len(self.issues) + 1, [fields]))
        return self.issues[-1]

    async def _given(self, request: Request, proof: str, header: str = "authorization") -> Any:
        """The JSON of a request, or the answer that refuses it."""
        body = await request.body()
        given = json.loads(body) if body else None
        self.requests.append((request.method, request.url.path, given))
        if request.headers.get(header) != proof:
            return JSONResponse({"message": "Unauthorized"}, 401)
        if self.refuse_with is not None:
            return JSONResponse({"message": "no"}, self.refuse_with)
        return given

    def _answered(self, answer: Any, status: int = 201) -> Response:
        if self.lose_answers:
            self.lose_answers -= 1
            return JSONResponse({"message": "bad gateway"}, 502)
        return JSONResponse(answer, status)

    async def _jira(self, request: Request) -> Response:
        given = await self._given(request, BASIC)
        if isinstance(given, Response):
            return given
        path = request.path_params["rest"]
        if path == "myself":
            return JSONResponse({"accountId": "1", "displayName": "Faultline"})
        if path == "search/jql":
            jql = request.query_params["jql"]
            label = re.search(r'labels = "([^"]+)"', jql)
            assert label, jql
            found = [one for one in self.issues if label[1] in one.fields["labels"]]
            return JSONResponse({"issues": [{"key": f"OPS-{one.number}"} for one in found]})
        if request.method == "POST":
            assert given["fields"]["project"] == {"key": "OPS"}
            made = self._made(given["fields"])
            key = f"OPS-{made.number}"
            return self._answered({"id": f"1000{made.number}", "key": key, "self": "x"})
        self.issues[int(path.rpartition("-")[2]) - 1].versions.append(given["fields"])
        return Response(status_code=204)

    async def _linear(self, request: Request) -> Response:
        given = await self._given(request, TOKEN)
        if isinstance(given, Response):
            return given
        query, variables = given["query"], given["variables"]
        known = {one.fields["id"]: one for one in self.issues}

        def about(one: FakeIssue) -> dict[str, str]:
            return {
                "identifier": f"OPS-{one.number}",
                "url": f"https://linear.app/acme/issue/OPS-{one.number}",
            }

        if "viewer" in query:
            return JSONResponse({"data": {"viewer": {"name": "Faultline"}}})
        if "issueCreate" in query:
            assert variables["input"]["id"] not in known, "Linear refuses an id it knows"
            made = self._made(variables["input"])
            said = {"issueCreate": {"success": True, "issue": about(made)}}
            return self._answered({"data": said}, 200)
        if "issueUpdate" in query:
            known[variables["id"]].versions.append(variables["input"])
            return JSONResponse({"data": {"issueUpdate": {"success": True}}})
        nodes = [about(known[variables["id"]])] if variables["id"] in known else []
        return JSONResponse({"data": {"issues": {"nodes": nodes}}})

    async def _about(self, request: Request) -> Response:
        given = await self._given(request, f"Bearer {TOKEN}")
        if isinstance(given, Response):
            return given
        return JSONResponse({"full_name": "acme/ops", "private": True})

    async def _github(self, request: Request) -> Response:
        given = await self._given(request, f"Bearer {TOKEN}")
        if isinstance(given, Response):
            return given

        def about(one: FakeIssue) -> dict[str, Any]:
            url = f"https://github.com/acme/ops/issues/{one.number}"
            return {"number": one.number, "html_url": url, "body": one.fields["body"]}

        if request.method == "GET":
            return JSONResponse([about(one) for one in self.issues])
        if request.method == "POST":
            return self._answered(about(self._made(given)))
        self.issues[int(request.path_params["n"]) - 1].versions.append(given)
        return JSONResponse({})

    async def _gitlab(self, request: Request) -> Response:
        given = await self._given(request, TOKEN, "private-token")
        if isinstance(given, Response):
            return given
        assert request.scope["raw_path"].startswith(b"/gitlab/api/v4/projects/acme%2Fops")
        path = request.path_params["rest"].removeprefix("projects/acme/ops")

        def about(one: FakeIssue) -> dict[str, Any]:
            url = f"https://gitlab.com/acme/ops/-/issues/{one.number}"
            text = one.fields["description"]
            return {"iid": one.number, "web_url": url, "description": text}

        if not path:
            return JSONResponse({"path_with_namespace": "acme/ops"})
        if request.method == "GET":
            return JSONResponse([about(one) for one in self.issues])
        if request.method == "POST":
            return self._answered(about(self._made(given)))
        self.issues[int(path.rpartition("/")[2]) - 1].versions.append(given)
        return JSONResponse({})
