"""Every address of docs/openapi.yaml, asked with hostile parts: by somebody who may, and by a
stranger.

An answer of 5xx is a crash, and so is a status that the document does not know; a stranger who gets
a page is a wrong accept, and so is a hostile text that a page holds as live mark-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import yaml  # type: ignore[import-untyped]
from starlette.applications import Starlette

from faultline.bot.intake.accepting import store_accept
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.bot.web.pages import page_routes
from tests.bot.web.sample_case import ALERT, write_sample_case
from tests.databases import store_engine
from tests.fuzz.counting import Answer, ServerFault, Target, Try
from tests.fuzz.mutations import HOSTILE_TEXT, damaged, hostile

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
TOKEN = "a-token-that-nobody-guesses"
OPEN = ("/healthz", "/readyz", "/static/{file}", "/login")
LIVE = re.compile(r"<script>alert\(1\)|href=.javascript:", re.IGNORECASE)
PAGES = ("login", "pages", "downloads", "probes")


def document() -> dict[str, Any]:
    """The document."""
    found: dict[str, Any] = yaml.safe_load(DOCUMENT.read_text())
    return found


def operations() -> list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]]:
    """Path, method, operation and parameters of each operation, references followed."""
    whole = document()
    found = []
    for path, item in whole["paths"].items():
        for method in ("get", "post"):
            if method in item:
                given = [*item.get("parameters", []), *item[method].get("parameters", [])]
                found.append((path, method, item[method], [_followed(whole, one) for one in given]))
    return found


def targets() -> list[Target]:
    """Somebody with the token, and somebody without."""
    return [
        Target("pages", 1.0, partial(_asking, True)),
        Target("pages, by a stranger", 0.6, partial(_asking, False)),
    ]


@contextlib.contextmanager
def site(scratch: Path) -> Iterator[tuple[Starlette, str]]:
    """The pages over a store with one answered investigation; and its id."""
    scratch.mkdir(parents=True, exist_ok=True)
    engine = store_engine(f"sqlite:///{scratch}/fuzz.sqlite")
    store = Store(engine)
    known = store.accept(ALERT).investigation_id or ""
    store.start(known)
    store.finish(known, "done", verdict="cause_found", confidence=0.8, headline="checkout is slow")
    write_sample_case(scratch / "cases" / known)

    async def case_path(investigation_id: str) -> Path | None:
        folder = scratch / "cases" / investigation_id
        return folder if folder.is_dir() and folder.parent == scratch / "cases" else None

    server = {"access_token": TOKEN, "public_url": "https://bot.example"}
    settings = Settings.model_validate({"server": server, "store": {"directory": str(scratch)}})
    try:
        yield (
            Starlette(routes=page_routes(settings, store, case_path, accept=store_accept(store))),
            known,
        )
    finally:
        engine.dispose()
        for child in (
            multiprocessing.active_children()
        ):  # of a page that works in one: this process waits for it
            child.kill()


@contextlib.contextmanager
def _asking(known_visitor: bool, scratch: Path) -> Iterator[Try]:
    asked = [
        one for one in operations() if set(one[2]["tags"]) & set(PAGES) and "/login/" not in one[0]
    ]
    with site(scratch) as (app, known), asyncio.Runner() as runner:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="https://bot.example"
        )

        def one(rng: random.Random) -> Answer:
            path, method, operation, parameters = rng.choice(asked)
            request = _request(rng, client, path, method, parameters, known, known_visitor)
            if path.endswith("/replay") and method == "post" and rng.random() < 0.98:
                return "refused"  # diagnoses in a separate process: seconds each
            if path.endswith("/events") and request.url.path == f"/investigations/{known}/events":
                return "refused"  # streams for as long as somebody listens
            answer = runner.run(client.send(request))
            return _judged(answer, path, operation, known_visitor)

        yield one
        runner.run(client.aclose())


def _request(
    rng: random.Random,
    client: httpx.AsyncClient,
    path: str,
    method: str,
    parameters: list[dict[str, Any]],
    known: str,
    known_visitor: bool,
) -> httpx.Request:
    for name in re.findall(r"{(\w+)}", path):
        usual = {"id": known, "finding_id": "F1", "file": "postmortem.md", "token_id": "abcd"}[name]
        value = usual if rng.random() < 0.6 else _text(rng)
        path = path.replace("{" + name + "}", quote(value[:400], safe=rng.choice(("", "/.."))), 1)
    query = {
        one["name"]: _text(rng)[:2_000]
        for one in parameters
        if one["in"] == "query" and rng.random() < 0.7
    }
    if rng.random() < 0.2:
        query[_text(rng)[:50]] = _text(rng)
    headers = {"accept": rng.choice(("text/html", "application/json", "*/*"))}
    headers[
        rng.choice(
            (
                "last-event-id",
                "if-none-match",
                "range",
                "x-forwarded-for",
                "cookie",
                "origin",
                "host",
            )
        )
    ] = _header(rng)
    if known_visitor:
        headers["authorization"] = f"Bearer {TOKEN}"
    elif rng.random() < 0.5:
        headers["authorization"] = rng.choice(
            ("Bearer ", "Basic Og==", f"Bearer {TOKEN[:-1]}", _header(rng))
        )
    body = b""
    if method == "post":
        names = (
            "right",
            "cause",
            "who",
            "csrf",
            "token",
            "start",
            "end",
            "services",
            "question",
            "logout_token",
        )
        body = urlencode({rng.choice(names): _text(rng)[:3_000] for _ in range(4)}).encode()
        body = damaged(rng, body) if rng.random() < 0.3 else body
        headers["content-type"] = rng.choice(
            (
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
                "application/json",
                "",
            )
        )
    sent = "HEAD" if method == "get" and rng.random() < 0.1 else method.upper()
    address = f"https://bot.example{path}" + (f"?{urlencode(query)}" if query else "")
    return client.build_request(sent, address, headers=headers, content=body)


def _judged(
    answer: httpx.Response, path: str, operation: dict[str, Any], known_visitor: bool
) -> Answer:
    if answer.status_code >= 500:
        raise ServerFault(f"{path} answered {answer.status_code}")
    if str(answer.status_code) not in {*operation["responses"], "404", "405", "307"}:
        raise ServerFault(
            f"{path} answered {answer.status_code}, which docs/openapi.yaml does not know"
        )
    if "html" in answer.headers.get("content-type", "") and LIVE.search(answer.text):
        return "wrong accept"
    if any("\n" in value or "\r" in value for value in answer.headers.values()):
        return "wrong accept"
    taken = answer.status_code < 300 or answer.headers.get("location", "/login").split("?")[
        0
    ] not in ("/login", "/")
    if not known_visitor and taken and path not in OPEN:
        return "wrong accept"
    return "accepted" if answer.status_code < 300 else "refused"


def _followed(whole: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    reference = one.get("$ref")
    if reference is None:
        return one
    found: Any = whole
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _text(rng: random.Random) -> str:
    value = hostile(rng)
    return (
        (value if isinstance(value, str) else str(value)[:200]).encode("utf-8", "replace").decode()
    )


def _header(rng: random.Random) -> str:
    given = rng.choice(
        (*HOSTILE_TEXT, "bytes=0-", "bytes=5-2,9-", "-1", "https://evil.example", "null")
    )
    return "".join(c for c in given[:500] if c.isascii() and c.isprintable())
