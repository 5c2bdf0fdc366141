"""Slack on loopback: the Web API calls that the bot makes, with everything kept.

Like Slack it is not idempotent: each chat.postMessage stores one more message. Use the URL of
`serve_in_thread` plus `/api` as `slack.api_url`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from faultline.loopback.block_kit_rules import broken_rules, too_long
from faultline.loopback.server import Traffic
from faultline.loopback.slack_views import Ephemeral, SlackRefusal, SlackViews

Arguments = Mapping[str, Any]

MAX_UPDATE_TEXT = 4000
PAGE = 100
BOT_USER, BOT_ID, TEAM = "U0FAULTLINE", "B0FAULTLINE", "T0LOOPBACK"


@dataclass
class SlackedMessage:
    """One stored message; `versions` holds every text and blocks it has had, the current last."""

    channel: str
    ts: str
    user: str
    versions: list[tuple[str, list[Any]]]
    thread_ts: str | None = None
    metadata: Mapping[str, Any] | None = None
    files: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The current text."""
        return self.versions[-1][0]

    @property
    def blocks(self) -> list[Any]:
        """The current blocks."""
        return self.versions[-1][1]

    def as_json(self, *, with_metadata: bool) -> dict[str, Any]:
        """As Slack's methods give it."""
        bot_ids: dict[str, Any] = {
            "type": "message",
            "ts": self.ts,
            "text": self.text,
            "user": self.user,
        }
        if self.user == BOT_USER:
            bot_ids["bot_id"] = BOT_ID
        if self.blocks:
            bot_ids["blocks"] = self.blocks
        if self.thread_ts:
            bot_ids["thread_ts"] = self.thread_ts
        if self.files:
            bot_ids["files"] = list(self.files)
        if with_metadata and self.metadata:
            bot_ids["metadata"] = self.metadata
        return bot_ids


@dataclass
class SlackFile:
    """One uploaded file. Blocks may show it after `refusals_left` more tries, as Slack works on it
    for a while."""

    id: str
    name: str
    length: int
    content: bytes = b""
    title: str = ""
    complete: bool = False
    shared_in: list[str] = field(default_factory=list)
    refusals_left: int = 0


class LoopbackSlack:
    """The workspace. `channels` maps ids to names; a channel that is not there is
    `channel_not_found`."""

    def __init__(
        self, *, channels: Mapping[str, str] | None = None, token: str | None = None
    ) -> None:
        self.channels = dict(channels or {"C0INCIDENTS": "incidents"})
        self.token = token
        self.traffic = Traffic()
        self.messages: list[SlackedMessage] = []
        self.ephemerals: list[Ephemeral] = []
        self.surfaces = SlackViews(self._shows_file)
        """What people see beside messages: modals, Home tabs, the assistant's pane."""
        self.files: dict[str, SlackFile] = {}
        self.new_file_refusals = 0
        self.not_in: set[str] = set()
        """Channels that exist and that the bot has not been invited to."""
        self.private: set[str] = set()
        """Channels that only their members see."""
        self.members: dict[str, set[str]] = {}
        """Who is in a private channel."""
        self.users: dict[str, dict[str, Any]] = {}
        """What `users.info` says of somebody beside the defaults: a full member."""
        self.user_groups: dict[str, list[str]] = {}
        """Ids of users by those of user groups."""
        self.scopes = ""
        """Those of the token, separated by commas, as Slack tells them with each answer."""
        self._lock = threading.Lock()
        self._count = 0
        self.app = Starlette(
            routes=[
                Route("/api/{call}", self._call, methods=["GET", "POST"]),
                Route("/upload/v1/{file_id}", self._upload, methods=["POST"]),
            ]
        )

    @property
    def posts(self) -> list[SlackedMessage]:
        """What the bot has posted, oldest first."""
        return [m for m in self.messages if m.user == BOT_USER]

    def say(
        self, channel: str, text: str, *, thread_ts: str | None = None, user: str = "U0ENGINEER"
    ) -> str:
        """A message of somebody else; gives its ts."""
        message = SlackedMessage(channel, self._next_ts(), user, [(text, [])], thread_ts)
        self.messages.append(message)
        return message.ts

    async def _call(self, request: Request) -> Response:
        # The path names the call, as in Slack's Web API.
        call = request.path_params["call"]
        failure = await self.traffic.arrive(call)
        if failure is not None:
            return JSONResponse(
                {"ok": False, "error": failure.error}, failure.status, dict(failure.headers)
            )
        try:
            # Arguments from the query, a form or a JSON body, as Slack takes them.
            arguments: dict[str, Any] = dict(request.query_params)
            kind = request.headers.get("content-type", "")
            if kind.startswith("application/json"):
                body = await request.body()
                arguments.update(json.loads(body) if body else {})
            elif request.method == "POST":
                async with request.form() as form:
                    arguments.update({k: v for k, v in form.items() if isinstance(v, str)})
            self._authorise(request, arguments)
            method = self._methods().get(call)
            if method is None:
                raise SlackRefusal("unknown_method")
            answer = {"ok": True, **method(arguments, str(request.base_url))}
        # Slack answers 200 with `ok: false`, and no error status.
        except SlackRefusal as refusal:
            answer = refusal.answer
        await self.traffic.leave(call)
        headers = {"x-oauth-scopes": self.scopes} if self.scopes else None
        return JSONResponse(answer, headers=headers)

    def _methods(self) -> Mapping[str, Callable[[Arguments, str], dict[str, Any]]]:
        return {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.postEphemeral": self._ephemeral,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "conversations.info": self._info,
            "conversations.members": self._members,
            "usergroups.users.list": self._user_group,
            "users.info": self._user,
            "users.lookupByEmail": self._user_by_email,
            "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete_upload,
            **self.surfaces.methods(),
        }

    def _authorise(self, request: Request, arguments: Arguments) -> None:
        # Slack takes the token from the header or from the arguments.
        authorization = request.headers.get("authorization", "").removeprefix(
            "Bearer "
        ) or arguments.get("token", "")
        if not authorization:
            raise SlackRefusal("not_authed")
        if self.token is not None and authorization != self.token:
            raise SlackRefusal("invalid_auth")

    def _auth_test(self, _: Arguments, base_url: str) -> dict[str, Any]:
        return {
            "url": base_url,
            "team": "loopback",
            "user": "faultline",
            "team_id": TEAM,
            "user_id": BOT_USER,
        }

    def _info(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel = self._channel(arguments, must_be_in=False)
        channel_info = {
            "id": channel,
            "name": self.channels[channel],
            "is_member": channel not in self.not_in,
        }
        if channel.startswith("D"):
            return {"channel": {"id": channel, "is_im": True, "user": channel[1:]}}
        return {"channel": {**channel_info, "is_private": channel in self.private}}

    def _members(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel = self._channel(arguments)
        return {"members": [BOT_USER, *sorted(self.members.get(channel, ()))]}

    def _user(self, arguments: Arguments, _: str) -> dict[str, Any]:
        user = str(arguments.get("user") or "")
        if not user:
            raise SlackRefusal("user_not_found")
        user_info = {"id": user, "team_id": TEAM, "is_restricted": False, "is_bot": False}
        return {"user": {**user_info, **self.users.get(user, {})}}

    def _user_by_email(self, arguments: Arguments, base_url: str) -> dict[str, Any]:
        for user, user_fields in self.users.items():
            if user_fields.get("profile", {}).get("email") == arguments.get("email"):
                return self._user({"user": user}, base_url)
        raise SlackRefusal("users_not_found")

    def _user_group(self, arguments: Arguments, _: str) -> dict[str, Any]:
        group = str(arguments.get("usergroup") or "")
        if group not in self.user_groups:
            raise SlackRefusal("no_such_subteam")
        return {"users": self.user_groups[group]}

    def _post(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel = self._channel(arguments)
        text, blocks = str(arguments.get("text") or ""), self._blocks(arguments)
        if not text and not blocks:
            raise SlackRefusal("no_text")
        metadata = _decoded(arguments.get("metadata"))
        thread = arguments.get("thread_ts")
        with self._lock:
            message = SlackedMessage(
                channel, self._next_ts(), BOT_USER, [(text, blocks)], thread, metadata
            )
            self.messages.append(message)
        return {
            "channel": channel,
            "ts": message.ts,
            "message": message.as_json(with_metadata=False),
        }

    def _update(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel, text = self._channel(arguments), str(arguments.get("text") or "")
        blocks = self._blocks(arguments)
        message = next(
            (m for m in self.messages if m.channel == channel and m.ts == arguments.get("ts")), None
        )
        if message is None:
            raise SlackRefusal("message_not_found")
        # Slack lets a bot change only its own messages.
        if message.user != BOT_USER:
            raise SlackRefusal("cant_update_message")
        if len(text) > MAX_UPDATE_TEXT:
            raise SlackRefusal("msg_too_long")
        message.versions.append((text, blocks))
        if "metadata" in arguments:
            message.metadata = _decoded(arguments["metadata"])
        return {
            "channel": channel,
            "ts": message.ts,
            "text": text,
            "message": message.as_json(with_metadata=False),
        }

    def _ephemeral(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel, user = self._channel(arguments), str(arguments.get("user") or "")
        text = str(arguments.get("text") or "")
        if not user or not text:
            raise SlackRefusal("no_text" if user else "user_not_in_channel")
        # Check only: nobody reads the blocks of an ephemeral message again.
        self._blocks(arguments)
        self.ephemerals.append(Ephemeral(channel, user, text, arguments.get("thread_ts")))
        return {"message_ts": self._next_ts()}

    def _history(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel = self._channel(arguments)
        # Replies are not part of a channel's history, but the first message of a thread is.
        messages = [
            m for m in self.messages if m.channel == channel and m.thread_ts in (None, m.ts)
        ]
        return self._page(reversed(messages), arguments)

    def _replies(self, arguments: Arguments, _: str) -> dict[str, Any]:
        channel, parent = self._channel(arguments), arguments.get("ts")
        thread = [
            m for m in self.messages if m.channel == channel and parent in (m.ts, m.thread_ts)
        ]
        if not any(m.ts == parent for m in thread):
            raise SlackRefusal("thread_not_found")
        return self._page(thread, arguments, parent=parent)

    def _page(
        self, messages: Iterable[SlackedMessage], arguments: Arguments, parent: str | None = None
    ) -> dict[str, Any]:
        oldest = float(arguments.get("oldest") or 0)
        remaining_messages = [m for m in messages if float(m.ts) > oldest or m.ts == parent]
        start = int(arguments.get("cursor") or 0)
        end = start + int(arguments.get("limit") or PAGE)
        with_metadata = str(arguments.get("include_all_metadata", "")).lower() in {"1", "true"}
        more = end < len(remaining_messages)
        return {
            "messages": [
                m.as_json(with_metadata=with_metadata) for m in remaining_messages[start:end]
            ],
            "has_more": more,
            "response_metadata": {"next_cursor": str(end) if more else ""},
        }

    def _upload_url(self, arguments: Arguments, base_url: str) -> dict[str, Any]:
        name, length = str(arguments.get("filename") or ""), int(arguments.get("length") or 0)
        if not name or length <= 0:
            raise SlackRefusal("invalid_arguments")
        with self._lock:
            self._count += 1
            file = SlackFile(
                f"F{self._count:09d}", name, length, refusals_left=self.new_file_refusals
            )
            self.files[file.id] = file
        return {"upload_url": f"{base_url}upload/v1/{file.id}", "file_id": file.id}

    async def _upload(self, request: Request) -> Response:
        file = self.files.get(request.path_params["file_id"])
        failure = await self.traffic.arrive("upload")
        if failure is not None or file is None:
            return PlainTextResponse("error", failure.status if failure else 404)
        content = await _uploaded(request)
        # Slack checks the announced length when the content comes.
        if len(content) != file.length:
            return PlainTextResponse("length differs from what was announced", 400)
        file.content = content
        await self.traffic.leave("upload")
        return PlainTextResponse(f"OK - {len(content)}")

    def _complete_upload(self, arguments: Arguments, _: str) -> dict[str, Any]:
        files = []
        for entry in _decoded(arguments.get("files")) or []:
            file = self.files.get(entry.get("id", ""))
            if file is None or not file.content:
                raise SlackRefusal("file_not_found")
            file.title, file.complete = entry.get("title") or file.name, True
            if arguments.get("channel_id"):
                self._share(file, arguments)
            files.append({"id": file.id, "title": file.title})
        return {"files": files}

    def _share(self, file: SlackFile, arguments: Arguments) -> None:
        """Sharing posts a message; sharing again posts another."""
        channel = self._channel({"channel": arguments["channel_id"]})
        file.shared_in.append(channel)
        shown = {"id": file.id, "name": file.name, "title": file.title}
        with self._lock:
            thread, ts = arguments.get("thread_ts"), self._next_ts()
            self.messages.append(
                SlackedMessage(channel, ts, BOT_USER, [("", [])], thread, files=(shown,))
            )

    def _blocks(self, arguments: Arguments) -> list[Any]:
        blocks = _decoded(arguments.get("blocks")) or []
        broken = broken_rules(blocks, self._shows_file)
        if broken:
            lines = [f"[ERROR] {line}" for line in broken]
            raise SlackRefusal(
                "invalid_blocks", errors=broken, response_metadata={"messages": lines}
            )
        if too_long(blocks):
            raise SlackRefusal("msg_blocks_too_long")
        return list(blocks)

    def _shows_file(self, file_id: str) -> bool:
        file = self.files.get(file_id)
        if file is None or not file.complete:
            return False
        # Slack works on a new file for a while, and refuses blocks that show it until then.
        if file.refusals_left > 0:
            file.refusals_left -= 1
            return False
        return True

    def _channel(self, arguments: Arguments, *, must_be_in: bool = True) -> str:
        channel = str(arguments.get("channel") or "")
        if channel not in self.channels:
            raise SlackRefusal("channel_not_found")
        if must_be_in and channel in self.not_in:
            raise SlackRefusal("not_in_channel")
        return channel

    def _next_ts(self) -> str:
        self._count += 1
        return f"{int(time.time())}.{self._count:06d}"


async def _uploaded(request: Request) -> bytes:
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return await request.body()
    async with request.form() as form:
        for value in form.values():
            if not isinstance(value, str):
                return await value.read()
    return b""


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value else value
