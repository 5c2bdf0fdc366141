"""A page with buttons that break the shop and repair it."""

from __future__ import annotations

import html
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from faultline.lab.shop.changes import ChangeDesk
from faultline.lab.shop.faults import BrokenShop, draw, faults_for, switch_on
from faultline.lab.shop.running import Shop

SURPRISE = "surprise"
SAME_SITE = (None, "same-origin", "none")
"""What browsers say of a button that was pressed on this page, or by hand (Sec-Fetch-Site)."""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Break the shop</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem }}
body {{ margin: 1.5rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.5rem; margin: 0 }}
button {{ font: inherit; padding: .5rem .9rem; border-radius: 6px; cursor: pointer }}
.main {{ background: #b3261e; color: #fff; border: 0; padding: .8rem 1.4rem; font-weight: 600 }}
.buttons {{ display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0 }}
ul {{ list-style: none; padding: 0 }}
li {{ display: flex; align-items: center; gap: 1rem; padding: .5rem 0 }}
li {{ border-top: 1px solid #8884 }}
code {{ display: block; font-size: .8125rem; opacity: .75 }}
</style></head><body>
<h1>Break the shop</h1>
<p role="status">{state}</p>
{actions}
<p>{links}</p>
</body></html>"""


@dataclass(frozen=True)
class NamedLink:
    """A page to look at while the shop is broken."""

    name: str
    url: str


class BreakButton:
    """Switches one fault of the shop on, and off again. `app` is the page."""

    def __init__(
        self,
        shop: Shop,
        desk: ChangeDesk,
        rng: random.Random,
        *,
        changing: threading.Lock,
        links: tuple[NamedLink, ...] = (),
    ) -> None:
        self._shop = shop
        self._desk = desk
        self._rng = rng
        self._changing = changing
        self._links = links
        self._broken: BrokenShop | None = None
        self._secret = False
        self._faults = {
            fault.name: fault for fault in faults_for(shop.services, small=shop.options.small)
        }
        self.app = Starlette(
            routes=[
                Route("/", self._show),
                Route("/break/{fault}", self._break, methods=["POST"]),
                Route("/reveal", self._reveal, methods=["POST"]),
                Route("/repair", self._repair, methods=["POST"]),
                Route("/healthz", self._healthy),
            ]
        )

    def target(self) -> str:
        """What is broken just now; empty if nothing is."""
        return "" if self._broken is None else self._broken.incident.target

    def switch_on(self, fault: str) -> None:
        """That fault, or a drawn one whose name the page keeps to itself. Nothing while the shop is
        broken already."""
        # Two people may press at once, and other changes of the shop take the same lock.
        with self._changing:
            if self._broken is not None:
                return
            named = None if fault == SURPRISE else fault
            seed = self._rng.randrange(1_000_000)
            self._secret = named is None
            self._broken = switch_on(self._shop, draw(self._shop, seed, named), self._desk)

    def repair(self) -> None:
        """Switch it off."""
        with self._changing:
            if self._broken is not None:
                self._broken.undo()
            self._broken = None

    async def _show(self, request: Request) -> Response:
        links = " · ".join(
            f'<a href="{html.escape(link.url)}">{html.escape(link.name)}</a>'
            for link in self._links
        )
        state, actions = self._healthy_text() if self._broken is None else self._broken_text()
        return HTMLResponse(_PAGE.format(state=state, actions=actions, links=links))

    def _healthy_text(self) -> tuple[str, str]:
        rows = []
        for fault in self._faults.values():
            button = _button(f"/break/{fault.name}", "Break", says=f"Break: {fault.name}")
            phrase = f"<span>{html.escape(fault.title)}<code>{fault.name}</code></span>"
            rows.append(f"<li>{button}{phrase}</li>")
        surprise = _button(f"/break/{SURPRISE}", "Break something", "main")
        chosen = f"<p>Or choose:</p><ul>{''.join(rows)}</ul>"
        return "The shop is healthy.", f'<div class="buttons">{surprise}</div>{chosen}'

    def _broken_text(self) -> tuple[str, str]:
        assert self._broken is not None
        repair = _button("/repair", "Repair it", "main")
        if self._secret:
            reveal = _button("/reveal", "What is it?")
            actions = f'<div class="buttons">{repair}{reveal}</div>'
            return "The shop is broken. An alert fires within a minute or two.", actions
        incident = self._broken.incident
        state = f"The shop is broken: {incident.fault.title} ({incident.fault.name}, "
        state += f"at {incident.target})."
        return html.escape(state), f'<div class="buttons">{repair}</div>'

    async def _break(self, request: Request) -> Response:
        fault = request.path_params["fault"]
        if fault != SURPRISE and fault not in self._faults:
            return PlainTextResponse("there is no such fault", status_code=404)
        return await self._pressed(request, lambda: self.switch_on(fault))

    async def _repair(self, request: Request) -> Response:
        return await self._pressed(request, self.repair)

    async def _reveal(self, request: Request) -> Response:
        def reveal() -> None:
            self._secret = False

        return await self._pressed(request, reveal)

    async def _pressed(self, request: Request, act: Callable[[], None]) -> Response:
        # Refuse requests from other sites, which could press the button for their visitors.
        if request.headers.get("sec-fetch-site") not in SAME_SITE:
            return PlainTextResponse("press the button on this page", status_code=403)
        # Switching a fault blocks, and the page must keep answering.
        await run_in_threadpool(act)
        # With 303 a reload shows the page again, and does not press the button again.
        return RedirectResponse("/", status_code=303)

    async def _healthy(self, request: Request) -> Response:
        return PlainTextResponse("ok")


def _button(action: str, text: str, kind: str = "", says: str = "") -> str:
    label = f' aria-label="{says}"' if says else ""
    button = f'<button class="{kind}"{label}>{text}</button>'
    return f'<form method="post" action="{action}">{button}</form>'
