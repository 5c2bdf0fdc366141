"""The form that starts an investigation without an alert."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Accept, NotAccepted
from faultline.bot.intake.incident_request import MOST_TEXT, IncidentRequest
from faultline.bot.intake.incident_requests import IncidentRequests, Requester, requester_key
from faultline.bot.intake.request_body import Refused
from faultline.bot.intake.since import since_of
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.connections import storable
from faultline.bot.store.listing import Listing
from faultline.bot.web.access import AccessControl
from faultline.bot.web.rendering import Site
from faultline.bot.web.visitor import note_investigation, visibility_of, visitor_of

FIELDS = ("question", "service", "since", "places", "key")
LONGEST = 200
MAX_PLACES = 10
_PLACE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.]{0,60})\s*=\s*(?P<value>\S.{0,199})")


async def requester_of(access: AccessControl, request: Request) -> Requester:
    """Whose rate the request counts for. Whoever holds the access token, or sits at this machine,
    is nobody in particular and has none."""
    visitor = visitor_of(request)
    assert visitor is not None, "nobody gets here without having been let in"
    if not visitor.named:
        return Requester(visitor.who, None)
    most = visitor.investigations_per_hour or access.settings.people.investigations_per_hour
    return Requester(await access.person(visitor), most)


class InvestigatePage:
    """The handlers of `/investigate`."""

    def __init__(self, site: Site, access: AccessControl, accept: Accept) -> None:
        self.site = site
        self.access = access
        self.requests = IncidentRequests(site.settings, site.store, accept)
        self.listing = Listing(site.store.engine)

    async def show(self, request: Request) -> Response:
        """The form, filled in as the address says."""
        query_params = {name: request.query_params.get(name, "")[:LONGEST] for name in FIELDS}
        return await self._form(request, {**query_params, "key": uuid.uuid4().hex})

    async def start(self, request: Request) -> Response:
        """Start one and go to its page."""
        # Foreign input: no file, and few fields of a bounded size.
        form = await request.form(max_files=0, max_fields=10, max_part_size=4 * MOST_TEXT)
        fields = _fields(form)
        requester = await requester_of(self.access, request)
        try:
            # The key of the form makes a second click the same request.
            key = requester_key(requester, fields["key"] or uuid.uuid4().hex)
            since = fields["since"]
            requested_request = IncidentRequest(
                text=fields["question"],
                key=key,
                door="page",
                service=fields["service"][:LONGEST] or None,
                since=since_of(since, datetime.now(UTC), UTC, "since when") if since else None,
                places=_places(fields["places"]),
            )
            as_sent = repr([fields[name] for name in FIELDS])
            accepted = await self.requests.start(requested_request, requester, as_sent)
        except SettingsError as error:
            return await self._form(request, fields, 400, f"{error}.")
        except Refused as error:
            return await self._form(
                request,
                fields,
                (400 if error.status == 422 else error.status),
                f"{error}".rstrip(".") + ".",
            )
        except NotAccepted:
            trouble = "This could not be stored. Send the form again."
            return await self._form(request, fields, 503, trouble)
        investigation_id = accepted.investigation_id
        note_investigation(request, investigation_id)
        if investigation_id is None:
            # It waits in the spool, and has no id before the database takes it.
            trouble = (
                "The database is away for the moment. The investigation starts when it is back, "
            )
            trouble += "and then stands in the list."
            return self.site.problem(request, 200, "Taken", trouble)
        return RedirectResponse(f"/investigations/{investigation_id}", 303)

    async def _form(
        self, request: Request, fields: dict[str, str], status: int = 200, trouble: str = ""
    ) -> Response:
        services = await in_store(self.listing.visible_to(visibility_of(request)).services)
        service_names = sorted({*services, *self.site.settings.services}, key=str.casefold)
        return self.site.page(
            request,
            "investigate.html",
            status=status,
            given=fields,
            trouble=trouble,
            services=service_names,
            longest=MOST_TEXT,
        )


def _fields(form: FormData) -> dict[str, str]:
    storables_by_name = {}
    for name in FIELDS:
        value = form.get(name)
        storables_by_name[name] = (
            storable(value.strip(), MOST_TEXT) if isinstance(value, str) else ""
        )
    return storables_by_name


def _places(text: str) -> dict[str, str]:
    """`cluster=eu-1, region=eu`. Raises SettingsError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    values_by_name = {}
    for part in parts[:MAX_PLACES]:
        match = _PLACE.fullmatch(part)
        if match is None:
            raise SettingsError("where", "write a label and its value, such as cluster=eu-1")
        values_by_name[match["name"]] = match["value"]
    return values_by_name
