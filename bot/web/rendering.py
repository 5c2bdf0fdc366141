"""Templates, the addresses of static files, and what every page needs: its investigation, its case,
its problems."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from faultline.analysis.errors import FaultlineError
from faultline.bot.policy.people import person
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.web import text
from faultline.bot.web.answer_state import list_text, stored_state
from faultline.bot.web.sessions import csrf_of, visibility_of, visitor_of

CasePath = Callable[[str], Awaitable[Path | None]]

HERE = Path(__file__).parent
STATIC = HERE / "static"
FILTERS = (
    "clock",
    "day",
    "stamp",
    "duration",
    "age",
    "day_and_minute",
    "us",
    "offset",
    "size",
    "percent",
    "with_code",
    "words",
    "kind_words",
    "join_units",
    "from_alert",
    "safe_href",
)


@lru_cache(maxsize=64)
def static(name: str) -> str:
    """The address of a static file, with its version."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]}"


@cache
def template_environment() -> jinja2.Environment:
    """Templates that escape everything and make hidden characters visible before; compiled once in
    a process."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=text.visible,
        trim_blocks=True,
        lstrip_blocks=True,
        # A misspelt name is an error, and not an empty string.
        undefined=jinja2.StrictUndefined,
    )
    env.globals["static"] = static
    env.globals["state_of"] = stored_state
    env.filters["list_text"] = list_text
    env.filters["person"] = person
    for name in FILTERS:
        env.filters[name] = getattr(text, name)
    return env


class Site:
    """What the handlers of all pages share."""

    def __init__(self, settings: Settings, store: Store, case_path: CasePath) -> None:
        self.settings = settings
        self.store = store
        self.case_path = case_path
        self.takes_questions = False
        """Whether investigations' pages have a field for questions."""
        self.takes_requests = False
        """Whether there is a form to start an investigation."""
        self.templates = Jinja2Templates(env=template_environment())

    def page(self, request: Request, name: str, *, status: int = 200, **context: Any) -> Response:
        """A page of this template."""
        defaults = {
            "visitor": visitor_of(request),
            "csrf": csrf_of(request),
            "origin": self.settings.server.public_url,
            "takes_questions": self.takes_questions,
            "takes_requests": self.takes_requests,
        }
        return self.templates.TemplateResponse(request, name, defaults | context, status)

    def problem(self, request: Request, status: int, title: str, line: str) -> Response:
        """A page that says in one line why there is no other."""
        return self.page(request, "problem.html", status=status, title=title, line=line)

    def no_such_investigation(self, request: Request) -> Response:
        """No investigation has the id in the address."""
        return self.problem(request, 404, "No such investigation", "No investigation has this id.")

    async def investigation(self, request: Request) -> StoredInvestigation | None:
        """The investigation that the address names, if there is one that this visitor may see."""
        investigation_id = request.path_params["id"]
        if not investigation_id.isprintable():  # PostgreSQL refuses text with a NUL in it
            return None
        return await in_store(self.store.get, investigation_id, visibility_of(request))

    async def folder(self, investigation_id: str) -> tuple[Path | None, str | None]:
        """The case folder, or why it is not available."""
        try:
            return await self.case_path(investigation_id), None
        except FaultlineError as error:
            return None, f"The case folder cannot be had: {error}."
        except OSError as error:
            return None, f"The case folder cannot be had: {error.strerror or type(error).__name__}."
