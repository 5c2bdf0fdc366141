"""Headers of servers that one runs oneself: a token as bearer or as Basic password, and the
tenant."""

from __future__ import annotations

import base64

from pydantic import SecretStr


def headers(
    token: SecretStr | None, username: str | None = None, tenant: str | None = None
) -> dict[str, str]:
    """The headers of every request. With a user name the token is the password of Basic
    authentication (RFC 7617)."""
    made = {}
    if token is not None and username:
        given = f"{username}:{token.get_secret_value()}".encode()
        made["Authorization"] = f"Basic {base64.b64encode(given).decode()}"
    elif token is not None:
        made["Authorization"] = f"Bearer {token.get_secret_value()}"
    if tenant:
        made["X-Scope-OrgID"] = tenant
    return made
