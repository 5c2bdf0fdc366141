"""The login provider: its discovery document, its keys, and the exchange of a code for somebody."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.bot.runtime.published_keys import KeySet, PublishedKeys
from faultline.bot.settings.people import LoginSettings
from faultline.bot.store.visitors import ProviderIdentity
from faultline.bot.web.oidc.attempt import Attempt, groups_of, person_of
from faultline.bot.web.oidc.provider_http import VENDOR, get, post
from faultline.bot.web.oidc.signed_tokens import (
    Ended,
    ExpectedClaims,
    check_access_token,
    check_id_token,
    check_logout_token,
)

MAX_AGE_S = 3600.0
"""The discovery document is read again after this time."""
TROUBLE_S = 2.0
"""A provider that does not answer is not asked again for this long, so that waiting visitors do not
wait one after the other."""
MAX_REMEMBERED = 1_000
"""Logout tokens that were used already; each is refused as stale anyway a few minutes later."""
AUTHORIZATION_OPTIONS = {"response_type": "code", "code_challenge_method": "S256"}


class _Discovery(msgspec.Struct):
    """https://openid.net/specs/openid-connect-discovery-1_0.html, section 3; RFC 9207 section 3."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] = msgspec.field(
        default_factory=lambda: ["client_secret_basic"]
    )
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct):
    id_token: str
    access_token: str | None = None


class Provider:
    """One provider, asked over HTTP. Every failure is a ConnectorError."""

    def __init__(self, login: LoginSettings) -> None:
        assert login.issuer is not None
        assert login.client_id is not None
        self._login = login
        self._issuer = login.issuer
        self._client_id = login.client_id
        self._document: tuple[float, _Discovery] | None = None
        self._trouble: tuple[float, ConnectorError] | None = None
        self._keys = PublishedKeys(VENDOR, self._published)
        self._used: OrderedDict[str, None] = OrderedDict()
        self._reading = asyncio.Lock()

    async def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """Where the browser goes to log in."""
        document = await self._discovery()
        parameters = {
            **AUTHORIZATION_OPTIONS,
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._login.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
        }
        # The endpoint may already have a query (RFC 6749 section 3.1).
        joint = "&" if urlsplit(document.authorization_endpoint).query else "?"
        return document.authorization_endpoint + joint + urlencode(parameters)

    async def check_sender(self, issuer: str | None) -> None:
        """Refuses an answer that another provider sent (mix-up, RFC 9207)."""
        document = await self._discovery()
        if issuer is None and document.authorization_response_iss_parameter_supported:
            raise ConnectorError(VENDOR, "answer", "does not say who sent it (iss)")
        if issuer is not None and issuer != document.issuer:
            raise ConnectorError(VENDOR, "answer", "was sent by another provider (iss)")

    async def person(self, code: str, attempt: Attempt, redirect_uri: str) -> ProviderIdentity:
        """The person that the code stands for."""
        document = await self._discovery()
        tokens = await self._exchange(document, code, attempt, redirect_uri)
        claims = await self._keys.claims(tokens.id_token)
        expected = ExpectedClaims(document.issuer, self._client_id)
        subject = check_id_token(
            claims, expected, nonce=attempt.nonce, access_token=tokens.access_token, now=time.time()
        )
        return person_of(
            await self._complete(document, claims, subject, tokens), document.issuer, self._login
        )

    async def bearer(self, access_token: str, resource: str) -> ProviderIdentity:
        """Whose access token it is, which must have been issued for this resource."""
        document = await self._discovery()
        claims = await self._keys.claims(access_token)
        check_access_token(claims, document.issuer, resource, now=time.time())
        return person_of(claims, document.issuer, self._login)

    async def ended(self, logout_token: str) -> tuple[str, Ended]:
        """The issuer, and what it says has ended. A token is taken once."""
        document = await self._discovery()
        claims = await self._keys.claims(logout_token)
        what, name = check_logout_token(
            claims, ExpectedClaims(document.issuer, self._client_id), now=time.time()
        )
        if name in self._used:
            raise ConnectorError(VENDOR, "token", "was used already (jti)")
        self._used[name] = None
        if len(self._used) > MAX_REMEMBERED:
            self._used.popitem(last=False)
        return document.issuer, what

    async def check(self) -> str:
        """One line for `faultline check`."""
        document = await self._discovery()
        keys = await self._keys.refreshed()
        return f"{document.issuer}, {keys} key{'' if keys == 1 else 's'}"

    async def _exchange(
        self, document: _Discovery, code: str, attempt: Attempt, redirect_uri: str
    ) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        secret = self._login.client_secret.get_secret_value() if self._login.client_secret else ""
        auth = None
        # Basic is the protocol's default; a provider without it takes the secret in the form.
        if secret and "client_secret_basic" in document.token_endpoint_auth_methods_supported:
            auth = (quote_plus(self._client_id), quote_plus(secret))  # RFC 6749 section 2.3.1
        else:
            form |= {"client_id": self._client_id} | ({"client_secret": secret} if secret else {})
        return await post("code", document.token_endpoint, _Tokens, form, auth)

    async def _complete(
        self, document: _Discovery, claims: Mapping[str, Any], subject: str, tokens: _Tokens
    ) -> Mapping[str, Any]:
        """The claims with those that the provider gives at its userinfo endpoint alone."""
        whole = "email" in claims and groups_of(claims, self._login.groups_claim)
        if whole or document.userinfo_endpoint is None or tokens.access_token is None:
            return claims
        more = await get(
            "userinfo", document.userinfo_endpoint, dict[str, Any], bearer=tokens.access_token
        )
        # OpenID Connect Core section 5.3.2: its `sub` must be the ID token's.
        if more.get("sub") != subject:
            raise ConnectorError(VENDOR, "userinfo", "is somebody else's (sub)")
        # The signed claims win.
        return {**more, **claims}

    async def _discovery(self) -> _Discovery:
        async with self._reading:
            if self._document is not None and time.monotonic() - self._document[0] <= MAX_AGE_S:
                return self._document[1]
            if self._trouble is not None and time.monotonic() - self._trouble[0] <= TROUBLE_S:
                raise self._trouble[1]
            try:
                document = await get(
                    "discovery", f"{self._issuer}/.well-known/openid-configuration", _Discovery
                )
                self._check(document)
            except ConnectorError as error:
                self._trouble = (time.monotonic(), error)
                raise
            self._document = (time.monotonic(), document)
            return document

    def _check(self, document: _Discovery) -> None:
        if document.issuer.rstrip("/") != self._issuer:  # Auth0's ends with a slash
            raise ConnectorError(
                VENDOR, "discovery", "is another issuer's: compare login.issuer with what it names"
            )
        endpoints = (document.authorization_endpoint, document.token_endpoint, document.jwks_uri)
        for url in (*endpoints, document.userinfo_endpoint):
            if (
                url is not None
                and not url.startswith("https://")
                and self._issuer.startswith("https://")
            ):
                raise ConnectorError(VENDOR, "discovery", "names an address without https")

    async def _published(self) -> KeySet:
        document = await self._discovery()
        return await get("keys", document.jwks_uri, KeySet)
