"""Fixtures of the API's tests: a site that asks for the access token, and programs with tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from faultline.bot.policy.people import Role
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.quotas import TokenLimits, make_token
from tests.bot.web.conftest import server
from tests.bot.web.serving import PATIENT_S, Server, Site, serving

__all__ = ["server"]

TOKEN = "correct horse battery staple"
Program = Callable[..., httpx.Client]


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[Site]:
    """A site with an access token, so that API tokens are needed."""
    settings = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))
    with serving(server, tmp_path, settings) as running:
        yield running


@pytest.fixture
def program(site: Site) -> Iterator[Program]:
    """Makes a client with its own token."""
    with ExitStack() as stack:

        def make(role: Role = "responder", limits: TokenLimits | None = None) -> httpx.Client:
            token, _ = make_token(
                site.store, "pipeline", role, days=1, made_by="ann", limits=limits
            )
            headers = {"authorization": f"Bearer {token}"}
            client = httpx.Client(base_url=site.url, headers=headers, timeout=PATIENT_S)
            return stack.enter_context(client)

        yield make
