"""The codes of errors in a provider's answers."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[a-z_]{1,40}")
"""Error codes of OAuth (RFC 6749 section 5.2, OpenID Connect Core section 3.1.2.6): nothing else is
repeated."""


def plain_code(error: str | None) -> str:
    """An error's code as the provider gave it if it is a code, so that a page can repeat it."""
    return error if error and _PLAIN.fullmatch(error) else "an error that is not of the protocol"
