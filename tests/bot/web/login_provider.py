"""A login provider on loopback that follows the protocol, and can be made to break it in one
place."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.rsa_keys import signing_key

CLIENT_ID = "faultline"
CLIENT_SECRET = "s3cr3t & :more"
CODE_LASTS_S = 60
Key = RSAKey | ECKey | OctKey


@dataclass
class LoginProvider:
    """One person is signed in there: `claims` is what the provider says of them."""

    issuer: str
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)
    """Claims that are forced on the ID token; None takes one away."""
    header: dict[str, Any] = field(default_factory=dict)
    signs_with: Key | None = None
    document: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    """Parameters that are forced on the answer to the browser."""
    alg: str = "RS256"
    down: bool = False
    asks: bool = False
    """Whether a page stands between, as a person meets it."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key: Key = field(default_factory=lambda: signing_key(0, "first"))
    published: list[Key] = field(default_factory=list)
    token_requests: int = 0
    key_requests: int = 0

    def app(self) -> Starlette:
        """The provider as an application."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
                Route("/userinfo", self._userinfo),
            ]
        )

    def signed(self, claims: Mapping[str, Any], *, typ: str = "JWT") -> str:
        """A token with these claims."""
        key = self.signs_with or self.key
        header = {"alg": self.alg, "typ": typ, "kid": key.kid, **self.header}
        kept = {name: value for name, value in header.items() if value is not None}
        return jwt.encode(kept, dict(claims), key, algorithms=[self.alg], default_type=None)

    async def _discovery(self, _request: Request) -> Response:
        if self.down:
            return JSONResponse({"error": "temporarily_unavailable"}, 503)
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "authorization_response_iss_parameter_supported": True,
                "surplus": {"is": "ignored"},
                **self.document,
            }
        )

    async def _authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        assert given["response_type"] == "code"
        assert given["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = given
        answer = {"code": code, "state": given["state"], "iss": self.issuer, **self.answers}
        address = f"{given['redirect_uri']}?{urlencode({k: v for k, v in answer.items() if v})}"
        if self.asks:
            link = f'<a id="go" href="{escape(address)}">Continue as Ann</a>'
            return HTMLResponse(f'<link rel="icon" href="data:,"><title>Provider</title>{link}')
        return RedirectResponse(address, 302)

    async def _token(self, request: Request) -> Response:
        self.token_requests += 1
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        wanted = base64.b64encode(b"faultline:s3cr3t+%26+%3Amore").decode()
        if request.headers.get("authorization") != f"Basic {wanted}":
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(
            hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        )
        if (
            asked is None
            or challenge.rstrip(b"=").decode() != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "user-1",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "at_hash": _half_hash("at"),
            **self.claims,
            **self.changed,
        }
        token = self.signed({name: value for name, value in claims.items() if value is not None})
        return JSONResponse({"access_token": "at", "token_type": "Bearer", "id_token": token})

    async def _keys(self, _request: Request) -> Response:
        self.key_requests += 1
        keys = [
            key.as_dict(private=False)
            for key in (self.key, *self.published)
            if not isinstance(key, OctKey)
        ]
        return JSONResponse(
            {
                "keys": [
                    {"kty": "future", "kid": "x"},
                    {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
                    *keys,
                ]
            }
        )

    async def _userinfo(self, request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer at":
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse({"sub": "user-1", **self.userinfo})


def _half_hash(access_token: str) -> str:
    return (
        base64.urlsafe_b64encode(hashlib.sha256(access_token.encode()).digest()[:16])
        .rstrip(b"=")
        .decode()
    )
