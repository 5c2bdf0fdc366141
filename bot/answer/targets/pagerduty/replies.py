"""PagerDuty as a reply target: one note per investigation, written once, amended in place.

The only file that knows pdpyras for writing; it blocks, so every call runs in a thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from analysis.errors import ConnectorError
from bot.answer.targets.pagerduty.incident import (
    INCIDENT_ID,
    VENDOR,
    IncidentState,
    field_values,
    read_incident,
)
from bot.answer.targets.pagerduty.note import (
    bears_marker,
    closing_note_text,
    failed_note_text,
    joined_note_text,
    note_text,
)
from bot.answer.targets.pagerduty.target import TARGET
from bot.answer.targets.posting import LEASE, REQUEST_TIMEOUT_S, post_once
from bot.runtime.threads import in_store, in_thread
from bot.settings import Settings
from bot.store.store import GroupedAlert, Store, StoredInvestigation
from connectors.environment_trust import ca_file_of_environment
from connectors.named_ids import bare_id
from connectors.pagerduty import ACCOUNT_LABEL
from connectors.pagerduty.session import auth_type_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    import pdpyras

if TYPE_CHECKING:
    from bot.answer.outcome import Outcome

T = TypeVar("T")

NOT_UNDERSTOOD = (AttributeError, KeyError, TypeError, ValueError)
"""How pdpyras fails on JSON of another type than it expects; what breaks off midway reaches us as
an OSError."""
RETRIES = {429: 3}
"""pdpyras would retry 429 for ever."""
FIRST_WAIT_S = 0.5
"""pdpyras doubles it before each wait: 1, 2 and 4 s."""
MAX_MERGES = 3
"""Incidents that were merged one into the next, followed at most."""
MAX_JOINED = 20
"""Incidents whose alerts joined that get a note; each is a few requests of the 960 a minute that
PagerDuty allows."""


class PagerDutyReplies:
    """Writes notes. Every failure is one ConnectorError that says whether to try again. Of several
    accounts it writes to the one that its settings were made for."""

    def __init__(
        self, settings: Settings, store: Store, *, owner: str, lease: timedelta = LEASE
    ) -> None:
        self._settings = settings
        self._store = store
        self._owner = owner
        self._lease = lease
        self._target = TARGET.seen_in(settings)

    @property
    def name(self) -> str:
        """`pagerduty`, with the account where there are several."""
        return self._target.own_name

    def wanted(self, investigation: StoredInvestigation) -> bool:
        """Whether there is a key, and the alert has an incident; of several accounts, too, where an
        incident of this one joined the investigation of another's."""
        if not self._target.configured(self._settings):
            return False
        if self._noted_incident(investigation):
            return True
        return bool(self._target.account and self._joined(investigation))

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Nothing: a note that says nothing yet would only be noise in the incident."""

    async def preview(self, outcome: Outcome) -> None:
        """Nothing: the note is written once, with the final answer."""

    async def answer(self, outcome: Outcome) -> None:
        """Write the note, or amend the one that is there; then the custom fields, and notes on
        incidents that joined.

        The incident's state is asked right before: of one that was resolved meanwhile there is only
        a short note to close with, and of one that was merged into another that other gets the
        note.
        """
        investigation = outcome.investigation
        if self._target.account and not self._noted_incident(investigation):
            await self._point_from_joined(outcome, "", but=set())
            return
        own = self._own_incident(investigation)
        incident = await in_thread(self._standing, own)
        if incident.resolved:
            await self._close(outcome, incident.id)
        else:
            await self.write(investigation, self._text(outcome), incident=incident.id)
            await self._fill_fields(outcome, incident.id)
        await self._point_from_joined(outcome, own, but={own, incident.id})

    async def write(
        self,
        investigation: StoredInvestigation,
        text: str,
        *,
        incident: str = "",
        amend: bool = True,
    ) -> str:
        """The id of the investigation's note on the incident (its own unless named), once its
        content is `text`."""
        own = self._noted_incident(investigation)
        incident = incident or self._own_incident(investigation)
        path = f"/incidents/{incident}/notes"
        written: list[str] = []

        async def find() -> str | None:
            return await in_thread(self._find, path, investigation.id)

        async def send() -> str:
            written.append(await in_thread(self._create, path, text))
            return written[-1]

        key = self._key(investigation, incident, own)
        note_id = await post_once(
            self._store,
            key,
            investigation.id,
            owner=self._owner,
            find=find,
            send=send,
            lease=self._lease,
        )
        if amend and note_id not in written:
            await in_thread(self._amend, path, note_id, text)
        return note_id

    def _key(self, investigation: StoredInvestigation, incident: str, own: str) -> str:
        """The key under which a note is remembered. A note on an incident other than the
        investigation's own has a separate key."""
        key = self._target.post_key(investigation.id)
        return key if incident == own else f"{key}:{incident}"

    def _text(self, outcome: Outcome) -> str:
        investigation, answer, url = outcome.investigation, outcome.answer, self._page(outcome)
        if answer is None:
            return failed_note_text(investigation, _reason(investigation), url)
        return note_text(investigation, answer.view(investigation.alert), url)

    async def _close(self, outcome: Outcome, incident: str) -> None:
        """One short note, where there is something to say and no note of ours stands already."""
        investigation, answer = outcome.investigation, outcome.answer
        if answer is None:
            return
        key = self._key(investigation, incident, self._own_incident(investigation))
        if key in await in_store(self._store.posts, investigation.id):
            return
        text = closing_note_text(investigation, answer.report.headline, self._page(outcome))
        await self.write(investigation, text, incident=incident, amend=False)

    async def _fill_fields(self, outcome: Outcome, incident: str) -> None:
        wanted = self._settings.pagerduty.custom_fields
        if not wanted or outcome.answer is None:
            return
        found = field_values(outcome.investigation, outcome.answer, self._page(outcome))
        body = {
            "custom_fields": [
                {"name": name, "value": found[ours]} for ours, name in wanted.items() if found[ours]
            ]
        }
        if body["custom_fields"]:
            path = f"/incidents/{incident}/custom_fields/values"
            await in_thread(
                self._call, "set custom fields", lambda session: _json(session.put(path, json=body))
            )

    async def _point_from_joined(self, outcome: Outcome, own: str, *, but: set[str]) -> None:
        """On open incidents whose alerts joined: why, and where the answer is. Written once, never
        amended."""
        investigation = outcome.investigation
        joined = self._joined(investigation)
        posts = await in_store(self._store.posts, investigation.id) if joined else {}
        for one in joined[:MAX_JOINED]:
            if (
                one.alert.id in but
                or one.resolved_at
                or self._key(investigation, one.alert.id, own) in posts
            ):
                continue
            standing = await in_thread(self._standing, one.alert.id)
            if standing.id != one.alert.id or standing.resolved:
                continue
            text = joined_note_text(
                investigation, one.why, investigation.headline or "", self._page(outcome)
            )
            await self.write(investigation, text, incident=one.alert.id, amend=False)

    def _joined(self, investigation: StoredInvestigation) -> list[GroupedAlert]:
        """The alerts of this account that joined."""
        found: list[GroupedAlert] = []
        for one in investigation.related:
            account = one.alert.labels.get(ACCOUNT_LABEL, "")
            is_ours = one.alert.source == VENDOR and account == self._target.account
            if is_ours and INCIDENT_ID.fullmatch(one.alert.id):
                found.append(one)
        return found

    def _standing(self, incident: str) -> IncidentState:
        """The incident as it is now, or the one into which it was merged."""
        for _ in range(MAX_MERGES):
            state = read_incident(
                self._call("get incident", partial(_incident, incident)), incident
            )
            if state.merged_into is None:
                return state
            incident = state.merged_into
        return IncidentState(incident, resolved=True)

    def _page(self, outcome: Outcome) -> str:
        return f"{self._settings.server.public_url}/investigations/{outcome.investigation.id}"

    def _find(self, path: str, investigation_id: str) -> str | None:
        notes = self._call("list notes", lambda session: session.rget(path))
        if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
            raise ConnectorError(
                VENDOR, "list notes", "the answer was not understood", retryable=True
            )
        found = (
            note for note in notes if bears_marker(str(note.get("content", "")), investigation_id)
        )
        return next((str(note["id"]) for note in found if note.get("id")), None)

    def _create(self, path: str, text: str) -> str:
        answer = self._call(
            "create note", lambda session: _json(session.post(path, json=_body(text)))
        )
        note = answer.get("note") if isinstance(answer, dict) else None
        created = note.get("id") if isinstance(note, dict) else None
        if (
            not isinstance(created, str) or not created
        ):  # whether it stands is looked for at the next try
            raise ConnectorError(VENDOR, "create note", "the answer names no note", retryable=True)
        return created

    def _amend(self, path: str, note_id: str, text: str) -> None:
        if not INCIDENT_ID.fullmatch(note_id):
            raise ConnectorError(VENDOR, "update note", "the note's id is not one")
        self._put("update note", f"{path}/{note_id}", _body(text))

    def _put(self, call: str, path: str, body: dict[str, Any]) -> None:
        self._call(call, lambda session: _json(session.put(path, json=body)))

    def _noted_incident(self, investigation: StoredInvestigation) -> str:
        """The incident of this account that gets the note; "" where there is none."""
        written = self._target.address(investigation.reply_to, None, self._settings)
        return bare_id(written or "")

    def _own_incident(self, investigation: StoredInvestigation) -> str:
        incident = self._noted_incident(investigation)
        if not INCIDENT_ID.fullmatch(incident):
            raise ConnectorError(VENDOR, "create note", "the alert names no incident")
        return incident

    def _session(self) -> Any:
        settings = self._settings.pagerduty
        if settings.api_token is None or not settings.from_email:
            missing = (
                "pagerduty.api_token" if settings.api_token is None else "pagerduty.from_email"
            )
            raise ConnectorError(VENDOR, "create note", f"{missing} is not set")
        token = settings.api_token.get_secret_value()
        session = pdpyras.APISession(
            token, default_from=settings.from_email, auth_type=auth_type_of(token)
        )
        session.verify = ca_file_of_environment() or True
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
        except (*NOT_UNDERSTOOD, OSError) as error:
            said = f"the answer was not understood ({type(error).__name__})"
            raise ConnectorError(VENDOR, call, said, retryable=True) from error
        finally:
            session.close()


def _incident(incident: str, session: Any) -> Any:
    return session.rget(f"/incidents/{incident}")


def _reason(investigation: StoredInvestigation) -> str:
    return (investigation.headline or "").removeprefix("The investigation failed: ")


def _body(text: str) -> dict[str, Any]:
    return {"note": {"content": text}}


def _json(response: Any) -> Any:
    return pdpyras.try_decoding(pdpyras.successful_response(response))


def _refused(call: str, response: Any) -> ConnectorError:
    """PagerDuty's error message, with what the operator can do about the usual ones."""
    status = int(response.status_code)
    meaning = {
        401: "the REST API key is not valid",
        402: "the account's plan does not have it",
        403: "the REST API key may not do that",
        404: "there is no such incident, note or field",
        429: "PagerDuty asks to wait",
    }.get(status, "")
    return ConnectorError(
        VENDOR,
        call,
        meaning or _message(response),
        status=status,
        retryable=status == 429
        or status >= 500
        or status < 400,  # below 400: a success that is not understood
    )


def _message(response: Any) -> str:
    try:
        error = response.json()["error"]
        parts = [str(error["message"]), *(str(e) for e in error.get("errors") or [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the answer was not understood"
    return "; ".join(parts)[:200]
