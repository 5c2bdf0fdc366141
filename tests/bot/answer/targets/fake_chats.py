"""Chats on loopback, as far as messages go, with their documented answers.

Each message keeps what was written to it, version by version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SECRET = "a-secret-that-writes"
CHANNEL = "19:ops@thread.tacv2"
SERVICE_CHANNEL = "19:payments@thread.tacv2"


@dataclass
class FakeMessage:
    """One message: its bodies as they were sent, the newest last."""

    name: str
    channel: str
    versions: list[dict[str, Any]]


@dataclass
class FakeChats:
    """All of them. `lose_answers` takes the next messages, and answers 502 instead."""

    messages: list[FakeMessage] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    tokens: list[dict[str, list[str]]] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    lose_answers: int = 0
    refuse_with: int | None = None
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    """People of Teams, by their id there."""
    keys: list[dict[str, Any]] = field(default_factory=list)
    """Published by the Bot Framework."""
    keys_read: int = 0
    keys_host: str = ""
    url: str = ""

    @property
    def app(self) -> Starlette:
        """The server."""
        activities = "/teams/v3/conversations/{channel}/activities"
        return Starlette(
            routes=[
                Route("/login/{tenant}/oauth2/v2.0/token", self._login, methods=["POST"]),
                Route("/openid", self._openid),
                Route("/keys", self._keys),
                Route("/teams/v3/conversations/{channel}/members/{person}", self._member),
                Route(activities, self._teams, methods=["POST"]),
                Route(activities + "/{name}", self._teams, methods=["PUT"]),
                Route("/mm/api/v4/users/me", self._mattermost),
                Route("/mm/api/v4/posts", self._mattermost, methods=["POST"]),
                Route("/mm/api/v4/posts/{name}/patch", self._mattermost, methods=["PUT"]),
                Route("/mm/api/v4/channels/{channel}", self._mattermost),
                Route("/mm/api/v4/channels/{channel}/posts", self._mattermost),
                Route("/hooks/1/{secret}", self._discord, methods=["GET", "POST"]),
                Route("/hooks/1/{secret}/messages/{name}", self._discord, methods=["PATCH"]),
                Route("/graph/v1.0/teams/{team}/channels/{channel}/messages", self._graph),
            ]
        )

    def sections(self) -> dict[str, dict[str, Any]]:
        """Settings that lead here."""
        return {
            "msteams": {
                "client_id": "an-app",
                "client_secret": SECRET,
                "tenant": "a-tenant",
                "team": "a-team",
                "channel": CHANNEL,
                "service_url": f"{self.url}/teams",
                "service_hosts": ["127.0.0.1"],
                "login_url": f"{self.url}/login",
                "graph_url": f"{self.url}/graph",
            },
            "discord": {"webhook_url": f"{self.url}/hooks/1/{SECRET}", "channel": CHANNEL},
            "mattermost": {"url": f"{self.url}/mm", "token": SECRET, "channel": CHANNEL},
        }

    def _answered(self, answer: Any, status: int) -> Response:
        if self.lose_answers:
            self.lose_answers -= 1
            return JSONResponse({"message": "bad gateway"}, 502)
        return JSONResponse(answer, status)

    async def _login(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode())
        self.tokens.append(form)
        if form["client_secret"] != [SECRET] or request.path_params["tenant"] != "a-tenant":
            return JSONResponse({"error": "invalid_client"}, 401)
        token = f"{form['scope'][0]} {len(self.tokens)}"
        self.valid.add(token)
        said = {"token_type": "Bearer", "expires_in": 3599, "access_token": token}
        return JSONResponse(said)

    async def _given(self, request: Request, scope: str) -> Any:
        body = await request.body()
        given = json.loads(body) if body else None
        self.requests.append((request.method, request.url.path, given))
        token = request.headers["authorization"].removeprefix("Bearer ")
        if token not in self.valid or not token.startswith(scope):
            return JSONResponse({"error": {"code": "AuthorizationRequired"}}, 401)
        if self.refuse_with is not None:
            return JSONResponse({"error": {"code": "BotNotInConversationRoster"}}, self.refuse_with)
        return given

    async def _teams(self, request: Request) -> Response:
        given = await self._given(request, "https://api.botframework.com/.default")
        if isinstance(given, Response):
            return given
        channel = request.path_params["channel"]
        if request.method == "POST":
            made = FakeMessage(f"16{len(self.messages)}", channel, [given])
            self.messages.append(made)
            return self._answered({"id": made.name}, 201)
        [known] = [one for one in self.messages if one.name == request.path_params["name"]]
        assert known.channel == channel
        known.versions.append(given)
        return JSONResponse({"id": known.name})

    async def _openid(self, request: Request) -> Response:
        return JSONResponse({"jwks_uri": f"{self.keys_host or self.url}/keys"})

    async def _keys(self, request: Request) -> Response:
        self.keys_read += 1
        return JSONResponse({"keys": self.keys})

    async def _member(self, request: Request) -> Response:
        given = await self._given(request, "https://api.botframework.com/.default")
        if isinstance(given, Response):
            return given
        found = self.members.get(request.path_params["person"])
        if found is None:
            return JSONResponse({"error": {"code": "MemberNotFoundInConversation"}}, 404)
        return JSONResponse({"id": request.path_params["person"], **found})

    async def _graph(self, request: Request) -> Response:
        given = await self._given(request, f"{self.url}/graph/.default")
        if isinstance(given, Response):
            return given
        assert request.path_params["team"] == "a-team"
        found = []
        for one in reversed(self.messages):
            if one.channel != request.path_params["channel"]:
                continue
            cards = [
                {"contentType": a["contentType"], "content": json.dumps(a["content"])}
                for a in one.versions[-1]["attachments"]
            ]
            found.append({"id": one.name, "messageType": "message", "attachments": cards})
        # What a person wrote has no card, and a picture has no content.
        found.insert(0, {"id": "9", "attachments": [{"contentType": "image", "content": None}]})
        return JSONResponse({"value": found})

    async def _mattermost(self, request: Request) -> Response:
        body = await request.body()
        given: Any = json.loads(body) if body else None
        self.requests.append((request.method, request.url.path, given))
        if request.headers["authorization"] != f"Bearer {SECRET}":
            return JSONResponse({"id": "api.context.session_expired.app_error"}, 401)
        if self.refuse_with is not None:
            return JSONResponse({"id": "api.context.permissions.app_error"}, self.refuse_with)
        if request.method == "POST":
            made = FakeMessage(f"p{len(self.messages)}", given["channel_id"], [given])
            self.messages.append(made)
            return self._answered({"id": made.name}, 201)
        if request.method == "PUT":
            [known] = [one for one in self.messages if one.name == request.path_params["name"]]
            known.versions.append(given)
            return JSONResponse({"id": known.name})
        if not request.url.path.endswith("/posts"):
            return JSONResponse({"username": "faultline", "display_name": "Operations"})
        posts: dict[str, Any] = {"x": {"id": "x", "props": None}}
        for one in self.messages:
            props = one.versions[0]["props"]
            posts[one.name] = {"id": one.name, "props": props, "delete_at": 0}
        return JSONResponse({"order": list(posts), "posts": posts})

    async def _discord(self, request: Request) -> Response:
        body = await request.body()
        given: Any = json.loads(body) if body else None
        self.requests.append((request.method, request.url.path, given))
        if request.path_params["secret"] != SECRET:
            return JSONResponse({"message": "Invalid Webhook Token", "code": 50027}, 401)
        if self.refuse_with is not None:
            return JSONResponse({"message": "no", "code": 1}, self.refuse_with)
        if request.method == "GET":
            return JSONResponse({"type": 1, "id": "1", "name": "Faultline", "channel_id": "2"})
        [embed] = given["embeds"]
        assert len(embed["title"]) <= 256
        assert len(embed["description"]) <= 4096
        assert given["allowed_mentions"] == {"parse": []}
        if request.method == "POST":
            assert request.query_params["wait"] == "true"
            made = FakeMessage(f"77{len(self.messages)}", CHANNEL, [given])
            self.messages.append(made)
            return self._answered({"id": made.name}, 200)
        [known] = [one for one in self.messages if one.name == request.path_params["name"]]
        known.versions.append(given)
        return JSONResponse({"id": known.name})
