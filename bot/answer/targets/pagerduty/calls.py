"""Calls of PagerDuty's REST API for notes and fields of incidents.

The only file that knows pdpyras for writing; it blocks, so every call runs in a thread. Every
failure is one ConnectorError that says whether to try again, and whether anything was changed.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import requests
from urllib3.exceptions import ConnectTimeoutError

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.lines import percent
from faultline.bot.answer.targets.pagerduty.note import bears_marker
from faultline.bot.answer.targets.posting import NOT_DONE, REQUEST_TIMEOUT_S
from faultline.bot.runtime.threads import in_thread
from faultline.bot.store.store import StoredInvestigation
from faultline.connectors.shared.transport.environment_trust import ca_file_of_environment
from faultline.connectors.shared.transport.rate_limiter import TokenBucket
from faultline.connectors.shared.transport.transport import retry_after
from faultline.connectors.vendors.pagerduty import PagerDutySettings
from faultline.connectors.vendors.pagerduty.session import auth_type_of

if TYPE_CHECKING:
    from faultline.bot.answer.outcome import Answer

# How fast one account of PagerDuty is written to: shared by all replies of a process.
#
# PagerDuty takes 960 requests a minute of one key and answers 429 to more, with the seconds until
# it takes the next (https://developer.pagerduty.com/docs/rest-api-rate-limits). Other processes
# that use the key are noticed by that answer.

JOINED_PER_S = 3.0
"""Notes on incidents that joined. Each takes two requests, so that these notes take 360 of the 960
a minute. The connector that reads takes up to 600."""
JOINED_AT_ONCE = 20
"""The incidents of a small storm do not wait for each other."""
LONGEST_HOLD_S = 60.0
"""PagerDuty counts requests by the minute."""
USUAL_HOLD_S = 1.0
"""Where its answer names no time."""


class Pace:
    """Of one account; used from any thread and event loop."""

    def __init__(self) -> None:
        self._joined = TokenBucket(JOINED_PER_S, JOINED_AT_ONCE)
        self._blocked_until = 0.0

    def refused(self, headers: Mapping[str, str]) -> None:
        """PagerDuty answered 429: nobody of this process asks before the time that it names."""
        ratelimit_reset = headers.get("ratelimit-reset") or headers.get("retry-after") or ""
        hold = retry_after({"retry-after": ratelimit_reset}, USUAL_HOLD_S)
        until = time.monotonic() + min(hold, LONGEST_HOLD_S)
        # Of two refusals the longer hold wins.
        self._blocked_until = max(self._blocked_until, until)

    async def open(self) -> None:
        """Wait until PagerDuty takes requests again."""
        await asyncio.sleep(max(0.0, self._blocked_until - time.monotonic()))

    async def joined(self) -> None:
        """Wait for the turn of one more note on an incident that joined."""
        while wait := self._joined.take():
            due = time.monotonic() + wait
            await asyncio.sleep(wait)
            self._joined.process_suspended(due, time.monotonic())


_paces: dict[tuple[str, str], Pace] = {}
_lock = threading.Lock()


def pace_of(account: str, url: str) -> Pace:
    """The one that everybody in this process shares who writes to that account."""
    # Two paces for one account would write at twice the rate.
    with _lock:
        return _paces.setdefault((account, url), Pace())


# A PagerDuty incident as replies see it: whether it is still open, and the values of its custom
# fields.
#
# Fields: https://developer.pagerduty.com/api-reference, `GET /incidents/{id}` (`status`,
# `resolve_reason`) and `PUT /incidents/{id}/custom_fields/values`.

VENDOR = "pagerduty"
INCIDENT_ID = re.compile(r"[A-Za-z0-9]{1,40}")
"""An id comes from a webhook and becomes part of a path."""
MERGED = "merge_resolve_reason"
MAX_FIELD = 200
"""Characters of a text field:
https://support.pagerduty.com/main/docs/custom-fields-on-incidents."""


@dataclass(frozen=True)
class IncidentState:
    """Whether it is over, and into which incident it was merged, if it was."""

    id: str
    resolved: bool
    merged_into: str | None = None


def read_incident(answer: Any, incident_id: str) -> IncidentState:
    """From PagerDuty's answer; the merge of an incident into itself or into no id is none. Raises
    ConnectorError."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("status"), str):
        raise ConnectorError(
            VENDOR,
            "get incident",
            "the answer was not understood",
            retryable=True,
            unchanged=True,
        )
    if answer["status"] != "resolved":
        return IncidentState(incident_id, resolved=False)
    target = _merged_into(answer.get("resolve_reason"))
    return IncidentState(
        incident_id, resolved=True, merged_into=None if target == incident_id else target
    )


def _merged_into(reason: object) -> str | None:
    """The id of the incident that took this one in, where the reason names a valid one."""
    if not isinstance(reason, Mapping) or reason.get("type") != MERGED:
        return None
    incident = reason.get("incident")
    target = incident.get("id") if isinstance(incident, Mapping) else None
    if isinstance(target, str) and INCIDENT_ID.fullmatch(target) is not None:
        return target
    return None


def field_values(
    investigation: StoredInvestigation, answer: Answer, page_url: str
) -> dict[str, str]:
    """Our values for custom fields, by the names that the settings use; "" where there is none."""
    view = answer.view(investigation.alert)
    summaries = {
        "verdict": view.verdict_label,
        "headline": view.headline,
        "cause": "",
        "service": investigation.alert.service or "",
        "change": "",
        "confidence": percent(view.confidence),
        "page": page_url,
    }
    if view.cause is not None:
        # The blamed service tells more than the one that alerted.
        summaries["cause"] = view.cause.summary
        summaries["service"] = view.cause.subject
        summaries["change"] = view.cause.change or ""
    return {name: single_line(value, MAX_FIELD) for name, value in summaries.items()}


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    import pdpyras

P = ParamSpec("P")
T = TypeVar("T")

NOT_UNDERSTOOD = (AttributeError, KeyError, TypeError, ValueError)
"""How pdpyras fails on JSON of another type than it expects; what breaks off midway reaches us as
an OSError."""
TRIES = 4
"""Of one call that PagerDuty answers with 429, each when PagerDuty takes requests again."""
TOO_MANY = 429
MAX_MERGES = 3
"""Incidents that were merged one into the next, followed at most."""


class _Session(pdpyras.APISession):  # type: ignore[misc]
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send one request. pdpyras would repeat one that is answered with 429 for ever, however
        long PagerDuty asks to wait."""
        response: requests.Response = super().send(request, **options)
        if response.status_code == TOO_MANY:
            raise _RateLimited(response)
        return response


class _RateLimited(Exception):
    def __init__(self, response: requests.Response) -> None:
        super().__init__()
        self.response = response


class PagerDutyCalls:
    """Of one account. Those that block are passed to `request`."""

    def __init__(self, settings: PagerDutySettings, pace: Pace) -> None:
        self._settings = settings
        self._pace = pace

    async def request(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One call, once PagerDuty takes requests. Raises ConnectorError."""
        for tries_left in range(TRIES - 1, -1, -1):
            await self._pace.open()
            try:
                return await in_thread(call, *args, **kwargs)
            except ConnectorError as error:
                if error.status != TOO_MANY or not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _session(self) -> Any:
        settings = self._settings
        if settings.api_token is None or not settings.from_email:
            missing = (
                "pagerduty.api_token" if settings.api_token is None else "pagerduty.from_email"
            )
            raise ConnectorError(VENDOR, "create note", f"{missing} is not set", unchanged=True)
        token = settings.api_token.get_secret_value()
        session = _Session(token, default_from=settings.from_email, auth_type=auth_type_of(token))
        session.verify = ca_file_of_environment() or True
        session.url = settings.api_url
        session.timeout = REQUEST_TIMEOUT_S
        # `request` decides on retries: pdpyras cannot know whether a note was written.
        session.max_network_attempts = 0
        return session

    def _call(self, call: str, use: Callable[[Any], T], *, reads: bool = False) -> T:
        """One session per call, because requests' sessions do not belong in two threads."""
        session = self._session()
        try:
            return use(session)
        except _RateLimited as error:
            self._pace.refused(error.response.headers)
            raise _refused(call, error.response) from error
        except pdpyras.PDHTTPError as error:
            raise _refused(call, error.response, reads=reads) from error
        except pdpyras.PDClientError as error:
            if error.response is not None:
                raise _refused(call, error.response, reads=reads) from error
            unsent = _never_connected(error.__cause__)
            raise ConnectorError(
                VENDOR,
                call,
                "cannot be reached, or gave no answer in time",
                retryable=True,
                unchanged=reads or unsent,
            ) from error
        except (*NOT_UNDERSTOOD, OSError) as error:
            phrase = f"the answer was not understood ({type(error).__name__})"
            raise ConnectorError(VENDOR, call, phrase, retryable=True, unchanged=reads) from error
        finally:
            session.close()

    def standing(self, incident: str) -> IncidentState:
        """The incident as it is now, or the one into which it was merged."""
        for _ in range(MAX_MERGES):
            state = read_incident(
                self._call("get incident", partial(_incident, incident), reads=True), incident
            )
            if state.merged_into is None:
                return state
            incident = state.merged_into
        # Treat a longer chain of merges as over, so that nothing is written.
        return IncidentState(incident, resolved=True)

    def find(self, path: str, investigation_id: str) -> str | None:
        """The id of the note at `path` that bears the investigation's marker."""
        notes = self._call("list notes", lambda session: session.rget(path), reads=True)
        if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
            raise ConnectorError(
                VENDOR, "list notes", "the answer was not understood", retryable=True
            )
        matching_notes = (
            note for note in notes if bears_marker(str(note.get("content", "")), investigation_id)
        )
        return next((str(note["id"]) for note in matching_notes if note.get("id")), None)

    def create(self, path: str, text: str) -> str:
        """Write a note, and give its id."""
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

    def amend(self, path: str, note_id: str, text: str) -> None:
        """Replace a note's text."""
        # The id becomes part of a path.
        if not INCIDENT_ID.fullmatch(note_id):
            raise ConnectorError(VENDOR, "update note", "the note's id is not one")
        self.put("update note", f"{path}/{note_id}", _body(text))

    def put(self, call: str, path: str, body: dict[str, Any]) -> None:
        """Set what lies at `path`."""
        self._call(call, lambda session: _json(session.put(path, json=body)))


def _never_connected(error: BaseException | None) -> bool:
    """Whether no connection was made, so that no request was sent."""
    if not isinstance(error, requests.ConnectionError) or not error.args:
        return False
    # requests keeps urllib3's reason inside the first argument of its own error.
    return isinstance(getattr(error.args[0], "reason", None), ConnectTimeoutError)


def _incident(incident: str, session: Any) -> Any:
    return session.rget(f"/incidents/{incident}")


def _body(text: str) -> dict[str, Any]:
    return {"note": {"content": text}}


def _json(response: Any) -> Any:
    return pdpyras.try_decoding(pdpyras.successful_response(response))


def _refused(call: str, response: Any, *, reads: bool = False) -> ConnectorError:
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
        unchanged=reads or status in NOT_DONE,
    )


def _message(response: Any) -> str:
    try:
        error = response.json()["error"]
        parts = [str(error["message"]), *(str(e) for e in error.get("errors") or [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the answer was not understood"
    return "; ".join(parts)[:200]
