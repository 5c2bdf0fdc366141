"""Modals, Home tabs, messages for one person alone, and the assistant's pane of Slack on
loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from faultline.loopback.block_kit_rules import broken_view, view_too_large

Arguments = Mapping[str, Any]
Answer = dict[str, Any]

TRIGGER_S = 3.0
"""A trigger may be exchanged for so long:
https://docs.slack.dev/interactivity/handling-user-interaction"""
MAX_PROMPTS = 4
MAX_STACK = 3
"""A modal, and two pushed upon it."""


class SlackRefusal(Exception):
    """An `ok: false` answer."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer = {"ok": False, "error": error, **more}


@dataclass
class SlackView:
    """One open modal or Home tab; `versions` holds every content it has had, the current last."""

    id: str
    user: str
    versions: list[dict[str, Any]]
    root: str = ""
    closed: bool = False

    @property
    def view(self) -> dict[str, Any]:
        """The current content."""
        return self.versions[-1]

    @property
    def hash(self) -> str:
        """Changes with each version."""
        return f"{self.id}.{len(self.versions)}"

    def as_json(self) -> dict[str, Any]:
        """As Slack's methods and payloads give it."""
        fields = {"private_metadata": "", "callback_id": "", "state": {"values": {}}, **self.view}
        return {**fields, "id": self.id, "hash": self.hash, "root_view_id": self.root or self.id}


@dataclass(frozen=True)
class Ephemeral:
    """A message that one person alone was shown."""

    channel: str
    user: str
    text: str
    thread_ts: str | None


@dataclass
class Pane:
    """One thread of the assistant's pane."""

    prompts: list[Mapping[str, str]] = field(default_factory=list)
    prompts_title: str = ""
    title: str = ""
    statuses: list[str] = field(default_factory=list)


class SlackViews:
    """What people see of the app beside messages. `knows_file` as for blocks."""

    def __init__(self, knows_file: Callable[[str], bool]) -> None:
        self.views: dict[str, SlackView] = {}
        self.homes: dict[str, SlackView] = {}
        self.panes: dict[tuple[str, str], Pane] = {}
        self.triggers: dict[str, tuple[str, float]] = {}
        """Trigger id to the person who clicked and when it ends; gone once it was exchanged."""
        self._exchanged: set[str] = set()
        self._knows_file = knows_file
        self._lock = threading.Lock()
        self._count = 0

    def methods(self) -> Mapping[str, Callable[[Arguments, str], Answer]]:
        """Web API calls by name."""
        return {
            "views.open": self._open,
            "views.push": self._push,
            "views.update": self._update,
            "views.publish": self._publish,
            "assistant.threads.setSuggestedPrompts": self._prompts,
            "assistant.threads.setStatus": self._status,
            "assistant.threads.setTitle": self._title,
        }

    def trigger(self, user: str, *, valid_s: float = TRIGGER_S) -> str:
        """A trigger id, as it comes with a click."""
        with self._lock:
            self._count += 1
            trigger = f"{self._count}.{int(time.time())}.{'a' * 32}"
            self.triggers[trigger] = (user, time.monotonic() + valid_s)
        return trigger

    def opened_by(self, user: str) -> list[SlackView]:
        """The modals that a person has open, the top one last."""
        return [v for v in self.views.values() if v.user == user and not v.closed]

    def _exchange(self, arguments: Arguments) -> str:
        # A trigger counts once, even if its click is delivered twice.
        trigger = str(arguments.get("trigger_id") or "")
        with self._lock:
            if trigger in self._exchanged:
                raise SlackRefusal("exchanged_trigger_id")
            if trigger not in self.triggers:
                raise SlackRefusal("invalid_trigger_id")
            user, ends = self.triggers[trigger]
            if time.monotonic() > ends:
                raise SlackRefusal("expired_trigger_id")
            self._exchanged.add(trigger)
        return user

    def _valid(self, arguments: Arguments, kind: str) -> dict[str, Any]:
        raw_view = arguments.get("view")
        view = json.loads(raw_view) if isinstance(raw_view, str) else raw_view
        if not isinstance(view, dict) or view.get("type") != kind:
            raise SlackRefusal("invalid_arguments")
        broken = broken_view(view, self._knows_file)
        if broken:
            lines = [f"[ERROR] {line}" for line in broken]
            raise SlackRefusal(
                "invalid_arguments", errors=broken, response_metadata={"messages": lines}
            )
        if view_too_large(view):
            raise SlackRefusal("view_too_large")
        return view

    def _open(self, arguments: Arguments, _: str) -> Answer:
        view, user = self._valid(arguments, "modal"), self._exchange(arguments)
        with self._lock:
            self._count += 1
            opened = self.views[f"V{self._count:09d}"] = SlackView(
                f"V{self._count:09d}", user, [view]
            )
        return {"view": opened.as_json()}

    def _push(self, arguments: Arguments, _: str) -> Answer:
        view, user = self._valid(arguments, "modal"), self._exchange(arguments)
        below = self.opened_by(user)
        if not below or len(below) >= MAX_STACK:
            raise SlackRefusal("push_limit_reached" if below else "not_found")
        with self._lock:
            self._count += 1
            name = f"V{self._count:09d}"
            # Every view of a stack has the first one as its root.
            opened = self.views[name] = SlackView(name, user, [view], below[0].id)
        return {"view": opened.as_json()}

    def _update(self, arguments: Arguments, _: str) -> Answer:
        opened = self.views.get(str(arguments.get("view_id") or ""))
        if opened is None or opened.closed:
            raise SlackRefusal("not_found")
        # The hash names the version that the caller has seen: do not overwrite a newer one.
        if arguments.get("hash") not in (None, "", opened.hash):
            raise SlackRefusal("hash_conflict")
        opened.versions.append(self._valid(arguments, "modal"))
        return {"view": opened.as_json()}

    def _publish(self, arguments: Arguments, _: str) -> Answer:
        user = str(arguments.get("user_id") or "")
        view = self._valid(arguments, "home")
        home = self.homes.setdefault(user, SlackView(f"VH{user}", user, []))
        if home.versions and arguments.get("hash") not in (None, "", home.hash):
            raise SlackRefusal("hash_conflict")
        home.versions.append(view)
        return {"view": home.as_json()}

    def _pane(self, arguments: Arguments) -> Pane:
        pane = self.panes.get((str(arguments.get("channel_id")), str(arguments.get("thread_ts"))))
        if pane is None:
            raise SlackRefusal("invalid_thread_ts")
        return pane

    def _prompts(self, arguments: Arguments, _: str) -> Answer:
        prompts = arguments.get("prompts")
        prompts = json.loads(prompts) if isinstance(prompts, str) else prompts
        # Slack takes one to four prompts.
        if not isinstance(prompts, list) or not 1 <= len(prompts) <= MAX_PROMPTS:
            raise SlackRefusal("invalid_arguments")
        if not all(isinstance(p, dict) and p.get("title") and p.get("message") for p in prompts):
            raise SlackRefusal("invalid_arguments")
        pane = self._pane(arguments)
        pane.prompts, pane.prompts_title = prompts, str(arguments.get("title") or "")
        return {}

    def _status(self, arguments: Arguments, _: str) -> Answer:
        self._pane(arguments).statuses.append(str(arguments.get("status") or ""))
        return {}

    def _title(self, arguments: Arguments, _: str) -> Answer:
        self._pane(arguments).title = str(arguments.get("title") or "")
        return {}
