"""What identifies a person in a text: addresses, numbers, names. No secret inside the user's own
tools, but nobody else's business.

Addresses of machines in private networks stay: an on-call engineer needs them, and they name
nobody. Numbers that a checksum can tell from others are checked. Every quantifier is bounded, so
time is linear in the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

_ACCOUNTS = frozenset(
    {
        "root",
        "admin",
        "administrator",
        "postgres",
        "mysql",
        "system",
        "nobody",
        "anonymous",
        "app",
        "service",
    }
    | {
        "default",
        "null",
        "nil",
        "none",
        "unknown",
        "guest",
        "user",
        "users",
        "test",
        "www-data",
        "nginx",
        "ubuntu",
    }
    | {
        "ec2-user",
        "daemon",
        "true",
        "false",
        "yes",
        "no",
        "and",
        "or",
        "in",
        "is",
        "was",
        "not",
        "with",
        "from",
        "for",
    }
    | {
        "the",
        "an",
        "on",
        "of",
        "to",
        "id",
        "name",
        "error",
        "failed",
        "missing",
        "invalid",
        "login",
        "denied",
    }
)
"""Accounts of machines and words of sentences, where a person's name could stand."""


PERSON = "PERSON"


@dataclass(frozen=True)
class Personal:
    """One kind: where the pattern has groups, the group that matched is the value. `holds` looks at
    the value."""

    kind: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda value: True


def passes_luhn(digits: str) -> bool:
    """Whether the number is a payment card's: 13 to 19 digits with a right check digit (ISO/IEC
    7812-1)."""
    bare = [int(c) for c in digits if c.isdigit()]
    doubled = (sum(divmod(2 * d, 10)) for d in bare[-2::-2])
    return (
        13 <= len(bare) <= 19
        # Zeros alone pass the checksum.
        and len(set(bare)) > 1
        and (sum(bare[-1::-2]) + sum(doubled)) % 10 == 0
    )


def is_iban(text: str) -> bool:
    """Whether the remainder of the account number is right (ISO 13616, modulo 97)."""
    bare = text.replace(" ", "").upper()
    return (
        15 <= len(bare) <= 34
        # Letters stand for 10 to 35, and the first four characters move to the end (ISO 13616).
        and int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4])) % 97 == 1
    )


def is_public_address(text: str) -> bool:
    """Whether an IP address belongs to the internet and not to a private network, a host itself or
    a document."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _GLOBAL_UNICAST
    # Private ranges name a machine of the operator, which an engineer needs to see.
    return not (
        address.is_private or address.is_multicast or address.is_reserved or address in _SHARED
    )


# All addresses of the IPv6 internet (RFC 4291).
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
# Carrier-grade NAT (RFC 6598), which `is_private` does not cover.
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_phone(text: str) -> bool:
    return 7 <= sum(c.isdigit() for c in text) <= 15


def _is_name(text: str) -> bool:
    # An id of digits alone is no name.
    return text.lower() not in _ACCOUNTS and not text.isdecimal() and any(c.isalpha() for c in text)


_IP = (
    r"(?:\d{1,3}(?:\.\d{1,3}){3}|(?=[0-9a-f:]{0,39}::|(?:[0-9a-f]{1,4}:){7})[0-9a-f:]{2,39}"
    r"(?:\.\d{1,3}){0,3})"
)
_ASSIGNED = r"[\"']?\s{0,3}[=:]\s{0,3}"
_VALUE = (
    r"(?:\"([^\"<>{}\[\]$%\n]{2,64})\"|'([^'<>{}\[\]$%\n]{2,64})'|([^\s\"',;&(){}\[\]<>$%="
    r"|]{2,64}))"
)
_WHO = (
    r"(?:user|usr|user[_\-]?name|login|login[_\-]?name|(?:full|first|last|given|family|display"
    r"|customer|patient|member"
    r"|employee|contact|holder|account[_\-]?holder)[_\-]?name|surname|actor|requested[_\-]?by"
    r"|customer|patient)"
)
_WHOSE = (
    r"(?:user|customer|patient|member|subscriber|employee|citizen|client)[_\-]?(?:id|no|number)"
)
_CALLER = (
    r"(?:client|remote|source|src|user|peer|visitor|origin)[_\-.]?(?:ip|addr|address)"
    r"|x-forwarded-for|x-real-ip"
    r"|remote_host|true-client-ip|cf-connecting-ip"
)

PERSONAL: tuple[Personal, ...] = (
    Personal(
        "EMAIL",
        re.compile(
            r"(?<![\w.+\-])[\w.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,5}"
        ),
    ),
    Personal(
        "IBAN", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), is_iban
    ),
    Personal(
        "CARD",
        re.compile(
            r"(?<![\w.\-])(?:[2-6]\d{12,18}|[2-6]\d{3}(?:[ \-]\d{4}){3}|3[47]\d{2}[ \-]\d{6}[ "
            r"\-]\d{5})(?![\w.\-]\d|\w)"
        ),
        passes_luhn,
    ),
    Personal(
        "SSN", re.compile(r"(?<![\w.\-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w\-])")
    ),
    Personal(
        "IP",
        re.compile(rf"(?i:\b(?:{_CALLER}){_ASSIGNED}[\"'\[]?)({_IP})(?![\w.])", re.IGNORECASE),
        _is_address,
    ),
    Personal(
        "IP", re.compile(rf"(?<![\w.:])({_IP})(?![\w:]|\.\d)", re.IGNORECASE), is_public_address
    ),
    Personal(
        "PHONE",
        re.compile(
            r"(?<![\w+.])\+[1-9]\d{0,2}(?:[ .\-]?\(?\d{2,4}\)?){2,5}(?![\w.\-]\d|\d)"
            r"|\(\d{3}\) ?\d{3}-\d{4}\b|(?<![\w.\-])\d{3}-\d{3}-\d{4}(?![\w\-])"
            rf"|(?i:\b(?:phone|telephone|tel|mobile|msisdn|cell|fax)(?:[_\-]?(?:no"
            rf"|number))?{_ASSIGNED}[\"']?)"
            r"(\+?\d(?:[ ()./\-]?\d){6,14})(?!\d)"
        ),
        _is_phone,
    ),
    Personal(PERSON, re.compile(rf"(?i:(?<![a-z\-]){_WHO}{_ASSIGNED}){_VALUE}"), _is_name),
    Personal(
        "USER_ID",
        re.compile(rf"(?i:(?<![a-z]){_WHOSE}[\"']?\s{{0,3}}[=:#]\s{{0,3}}[\"']?)([\w.\-]{{2,64}})"),
    ),
)
"""In the order in which they are looked for."""
