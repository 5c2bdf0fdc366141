"""Who looked at what, for admins: a page with filters, and the same lines as CSV; and the settings
as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, SecretStr
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import (
    NAMED_TABLES,
    Settings,
    is_secret,
    secret_variable,
    sections_in_order,
)
from faultline.bot.store.visitors import AuditEntry, AuditFilter
from faultline.bot.web.access import AccessControl
from faultline.bot.web.rendering import Site
from faultline.bot.web.text import visible

LISTED = 100
LONGEST_FILTER = 300
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets take a cell that begins so for a formula (OWASP, CSV injection)."""
FIRST_YEAR, LAST_YEAR = 1970, 9000
COLUMNS = ("at", "who", "name", "role", "action", "investigation_id", "address", "status", "note")


@dataclass(frozen=True)
class Setting:
    """One key as it stands."""

    key: str
    value: str
    changed: bool


def audit_routes(access: AccessControl, site: Site) -> list[BaseRoute]:
    """The routes of admins."""
    pages = AuditPages(access, site)
    return [
        Route(
            "/audit",
            pages.show,
            methods=["GET"],
            middleware=access.open_to("administer", "looked at the audit"),
        ),
        Route(
            "/audit.csv",
            pages.download,
            methods=["GET"],
            middleware=access.open_to("administer", "downloaded the audit"),
        ),
        Route(
            "/settings",
            pages.settings,
            methods=["GET"],
            middleware=access.open_to("administer", "looked at the settings"),
        ),
    ]


class AuditPages:
    """The handlers."""

    def __init__(self, access: AccessControl, site: Site) -> None:
        self.access = access
        self.site = site

    async def show(self, request: Request) -> Response:
        """One page of lines, the newest first."""
        filters = read_filters(request)
        before = request.query_params.get("before", "")
        # Up to 18 digits fit in the database's 64-bit integers.
        last = int(before) if before.isdecimal() and len(before) < 19 else None
        entries = await in_store(self.access.audit_log.read, filters, before=last, limit=LISTED)
        return self.site.page(
            request,
            "audit.html",
            visits=entries,
            asked=filters,
            days=_days(filters),
            actions=await in_store(self.access.audit_log.actions),
            older=entries[-1].id if len(entries) == LISTED else None,
            kept=self.access.settings.login.audit_days,
        )

    async def download(self, request: Request) -> Response:
        """All lines that are asked for, as CSV."""
        lines = csv_lines(self.access.audit_log.read_all(read_filters(request)))
        named = {"content-disposition": 'attachment; filename="faultline-audit.csv"'}
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=named)

    async def settings(self, request: Request) -> Response:
        """Every key, and whether it was changed; of secrets only whether they are set."""
        return self.site.page(request, "settings.html", sections=settings_shown(self.site.settings))


def read_filters(request: Request) -> AuditFilter:
    """The filters of an address; what is no day counts as not given."""
    values = {name: value[:LONGEST_FILTER].strip() for name, value in request.query_params.items()}
    until = _day(values.get("until", ""))
    return AuditFilter(
        who=values.get("who", ""),
        action=values.get("action", ""),
        investigation_id=values.get("investigation", ""),
        since=_day(values.get("since", "")),
        # The day itself counts as a whole.
        until=until + timedelta(days=1) if until else None,
    )


def csv_lines(entries: Iterator[AuditEntry]) -> Iterator[str]:
    """A header, then a line for each."""
    yield ",".join(COLUMNS) + "\r\n"
    for entry in entries:
        line = io.StringIO()
        csv.writer(line).writerow([_cell(asdict(entry)[column]) for column in COLUMNS])
        yield line.getvalue()


def settings_shown(settings: Settings) -> dict[str, list[Setting]]:
    """The sections with their keys, as an admin may see them."""
    shown = {}
    for name, _ in sections_in_order(type(settings)):
        if name in NAMED_TABLES:
            named = getattr(settings, name)
            shown[name] = [
                Setting(key, ", ".join(sorted(t.model_fields_set)), True)
                for key, t in named.items()
            ]
        else:
            shown[name] = list(_keys(name, getattr(settings, name)))
    return {name: keys for name, keys in shown.items() if keys}


def _keys(section: str, table: BaseModel) -> Iterator[Setting]:
    for key in type(table).model_fields:
        value = getattr(table, key)
        # Even for an admin a secret's value stays on the server.
        if is_secret(type(table), key):
            phrase = f"set by {secret_variable(section, key)}" if value else "not set"
            yield Setting(key, phrase, bool(value))
        else:
            yield Setting(key, _setting_text(value), key in table.model_fields_set)


def _setting_text(value: Any) -> str:
    if value is None or value in ((), {}):
        return "not set"
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, tuple):
        return ", ".join(_setting_text(v) for v in value)
    if isinstance(value, BaseModel):
        return ", ".join(sorted(value.model_fields_set)) or "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ", ".join(f"{k}: {_setting_text(v)}" for k, v in value.items())
        if hasattr(value, "items")
        else str(value)
    )


def _cell(value: object) -> str:
    cell = (
        value.isoformat()
        if isinstance(value, datetime)
        else ""
        if value is None
        else str(visible(str(value)))
    )
    # After a quote a spreadsheet shows the cell as text.
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _day(text: str) -> datetime | None:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day if FIRST_YEAR <= day.year <= LAST_YEAR else None


def _days(audit_filter: AuditFilter) -> dict[str, str]:
    """The days as a form shows them."""
    until = audit_filter.until - timedelta(days=1) if audit_filter.until else None
    return {
        name: f"{day:%Y-%m-%d}" if day else ""
        for name, day in (("since", audit_filter.since), ("until", until))
    }
