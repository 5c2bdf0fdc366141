"""Checks of deploys over the API: taken here, looked at by the workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.analysis.errors import SettingsError
from faultline.bot.answer.deploy_verdict import to_markdown
from faultline.bot.api import models
from faultline.bot.api.models import key_of, since_time
from faultline.bot.api.operations import answer_of
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.incident_requests import IncidentRequests, requester_key
from faultline.bot.intake.payload_fields import single_line
from faultline.bot.intake.service_names import catalogued
from faultline.bot.intake.signatures import Refused
from faultline.bot.policy.services import Teams
from faultline.bot.policy.values import DeployToCheck, due_at
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.changes import DeployChecks, StoredCheck
from faultline.bot.store.connections import storable
from faultline.bot.web.access import AccessControl
from faultline.bot.web.again_pages import requester_of
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import visibility_of

LONGEST_ID = 64


class DeployHandlers:
    """The handlers of `/api/deploy-checks`. Each raises Refused for what it cannot answer."""

    def __init__(self, site: Site, access: AccessControl, requests: IncidentRequests) -> None:
        self._site, self._access, self._requests = site, access, requests
        self._checks = DeployChecks(site.store.engine)

    async def start(self, request: Request, new_check: models.NewDeployCheck) -> Response:
        """Watch a deploy, or find the check of the same key."""
        key, now = key_of(request), datetime.now(UTC)
        requester = await requester_of(self._access, request)
        deploy = self._deploy(new_check, now)
        # Two callers may choose the same key, so it counts for its requester alone.
        check_id = requester_key(requester, f"deploy {key}")
        # The same key with another request is a mistake, and is refused.
        await self._requests.refuse_unless_new(
            f"deploy {check_id}", requester, new_check.model_dump_json()
        )
        stored_check = StoredCheck(
            id=check_id,
            request=deploy.model_dump(mode="json"),
            team=Teams.of(self._site.settings).team(deploy.service, ""),
            requested_by=requester.who,
            requested_at=now,
            due_at=due_at(deploy.looks(now)[0]),
            looks_done=0,
            verdict=None,
        )
        try:
            is_new = await in_store(self._checks.add, stored_check)
            current_check = await in_store(self._checks.get, check_id)
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error
        assert current_check is not None, "it was written just now"
        return answer_of(_shown(current_check, key), 202 if is_new else 200)

    async def get(self, request: Request, _payload: None) -> models.DeployCheck:
        """One check."""
        requested_storable = storable(request.path_params["check_id"], LONGEST_ID)
        stored_check = await in_store(self._checks.get, requested_storable)
        # Who may not see a check does not learn that it exists.
        if stored_check is None or not visibility_of(request).sees(stored_check.team):
            raise Refused(404, "No check of a deploy has this id")
        return _shown(stored_check, None)

    def _deploy(self, new_check: models.NewDeployCheck, now: datetime) -> DeployToCheck:
        service = single_line(new_check.service)
        since = since_time(new_check.since)
        if not service or since is None:
            raise Refused(422, "service: is empty")
        deploy = DeployToCheck(
            service=catalogued(self._site.settings, service) or service,
            deployed_at=since,
            wait=timedelta(minutes=new_check.wait_minutes),
            warm_up=timedelta(minutes=new_check.warm_up_minutes),
            baseline=timedelta(hours=new_check.baseline_hours),
            parts={name: single_line(value) for name, value in new_check.canary.items()},
            places={name: single_line(value) for name, value in new_check.places.items()},
        )
        try:
            return deploy.checked(now)
        except SettingsError as error:
            raise Refused(422, f"{error}") from None


def _shown(stored_check: StoredCheck, key: str | None) -> models.DeployCheck:
    verdict = (
        None if stored_check.verdict is None else DeployVerdict.model_validate(stored_check.verdict)
    )
    ended = "failed" if verdict is None else "decided"
    return models.DeployCheck.model_validate(
        {
            "id": stored_check.id,
            "key": key,
            "status": "watching" if stored_check.due_at is not None else ended,
            "service": str(stored_check.request["service"]),
            "asked_at": stored_check.requested_at,
            "next_look_at": stored_check.due_at,
            "verdict": verdict,
            "markdown": None if verdict is None else to_markdown(verdict),
        }
    )
