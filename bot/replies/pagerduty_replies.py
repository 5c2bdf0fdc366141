"""PagerDuty as a place for answers: one note per investigation, written once, amended in place.

The only file that knows pdpyras for writing; it blocks, so every call runs in a thread.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from analysis.errors import ConnectorError
from bot.replies.pagerduty_note import bears_marker, failed_note_text, note_text
from bot.replies.posting import LEASE, REQUEST_TIMEOUT_S, post_once
from bot.settings import Settings
from bot.store.store import Investigation, Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    import pdpyras

if TYPE_CHECKING:
    from bot.investigation.steps import Outcome

T = TypeVar("T")

VENDOR = "pagerduty"
RETRIES = {429: 3}
"""pdpyras would retry 429 for ever."""
FIRST_WAIT_S = 0.5
"""pdpyras doubles it before each wait: 1, 2 and 4 s."""
INCIDENT_ID = re.compile(r"[A-Za-z0-9]{1,40}")
"""An id comes from a webhook and becomes part of a path."""


class PagerDutyReplies:
    """Writes notes. Every failure is one ConnectorError that says whether to try again."""

    name = VENDOR

    def __init__(self, settings: Settings, store: Store, *, owner: str, lease: timedelta = LEASE) -> None:
        self._settings = settings
        self._store = store
        self._owner = owner
        self._lease = lease

    def wanted(self, investigation: Investigation) -> bool:
        """Whether there is a key, and the alert has an incident."""
        return self._settings.pagerduty.api_token is not None and bool(investigation.reply_to.pagerduty_incident)

    async def announce(self, investigation: Investigation) -> None:
        """Nothing: a note that says nothing yet would only be noise in the incident."""

    async def preview(self, outcome: Outcome) -> None:
        """Nothing: the note is written once, with the final answer."""

    async def answer(self, outcome: Outcome) -> None:
        """Write the note, or amend the one that is there."""
        investigation, answer = outcome.investigation, outcome.answer
        url = f"{self._settings.server.public_url}/investigations/{investigation.id}"
        if answer is None:
            reason = (investigation.headline or "").removeprefix("The investigation failed: ")
            text = failed_note_text(investigation, reason, url)
        else:
            text = note_text(investigation, answer.diagnosis, answer.report, answer.gaps, url, evidence=answer.evidence)
        await self.write(investigation, text)

    async def write(self, investigation: Investigation, text: str) -> str:
        """The note's id, once its content is `text`."""
        path = self._notes_path(investigation)
        written: list[str] = []

        async def find() -> str | None:
            return await asyncio.to_thread(self._find, path, investigation.id)

        async def send() -> str:
            written.append(await asyncio.to_thread(self._create, path, text))
            return written[-1]

        key = f"{investigation.id}:pagerduty"
        note_id = await post_once(
            self._store, key, investigation.id, owner=self._owner, find=find, send=send, lease=self._lease
        )
        if note_id not in written:
            await asyncio.to_thread(self._amend, path, note_id, text)
        return note_id

    def _find(self, path: str, investigation_id: str) -> str | None:
        for note in self._call("list notes", lambda session: session.rget(path)):
            if bears_marker(str(note.get("content", "")), investigation_id):
                return str(note["id"])
        return None

    def _create(self, path: str, text: str) -> str:
        answer = self._call("create note", lambda session: _json(session.post(path, json=_body(text))))
        return str(answer["note"]["id"])

    def _amend(self, path: str, note_id: str, text: str) -> None:
        if not INCIDENT_ID.fullmatch(note_id):
            raise ConnectorError(VENDOR, "update note", "the note's id is not one")
        self._call("update note", lambda session: _json(session.put(f"{path}/{note_id}", json=_body(text))))

    def _notes_path(self, investigation: Investigation) -> str:
        incident = investigation.reply_to.pagerduty_incident or ""
        if not INCIDENT_ID.fullmatch(incident):
            raise ConnectorError(VENDOR, "create note", "the alert names no incident")
        return f"/incidents/{incident}/notes"

    def _session(self) -> Any:
        settings = self._settings.pagerduty
        if settings.api_token is None or not settings.from_email:
            missing = "pagerduty.api_token" if settings.api_token is None else "pagerduty.from_email"
            raise ConnectorError(VENDOR, "create note", f"{missing} is not set")
        session = pdpyras.APISession(settings.api_token.get_secret_value(), default_from=settings.from_email)
        session.url = settings.api_url
        session.timeout = REQUEST_TIMEOUT_S
        session.retry = dict(RETRIES)
        session.sleep_timer = FIRST_WAIT_S
        session.max_network_attempts = 0
        return session

    def _call(self, call: str, use: Callable[[Any], T]) -> T:
        """One session per call, because requests' sessions do not belong in two threads."""
        session = self._session()
        try:
            return use(session)
        except pdpyras.PDHTTPError as error:
            raise _refused(call, error.response) from error
        except pdpyras.PDClientError as error:
            if error.response is not None:
                raise _refused(call, error.response) from error
            raise ConnectorError(
                VENDOR, call, "cannot be reached, or gave no answer in time", retryable=True
            ) from error
        finally:
            session.close()


def _body(text: str) -> dict[str, Any]:
    return {"note": {"content": text}}


def _json(response: Any) -> Any:
    return pdpyras.try_decoding(pdpyras.successful_response(response))


def _refused(call: str, response: Any) -> ConnectorError:
    """PagerDuty's error message, with what the operator can do about the usual ones."""
    status = int(response.status_code)
    meaning = {
        401: "the REST API key is not valid",
        403: "the REST API key may not write notes",
        404: "there is no such incident or note",
        429: "PagerDuty asks to wait",
    }.get(status, "")
    return ConnectorError(
        VENDOR, call, meaning or _message(response), status=status, retryable=status == 429 or status >= 500
    )


def _message(response: Any) -> str:
    try:
        error = response.json()["error"]
        parts = [str(error["message"]), *(str(e) for e in error.get("errors") or [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the answer was not understood"
    return "; ".join(parts)[:200]
