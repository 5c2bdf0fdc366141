"""What a provider's claims say about a person, and the role that the settings give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from faultline.bot.policy.people import Role, is_named, named_role
from faultline.bot.settings.people import LoginSettings, TeamSettings
from faultline.bot.store.visitors import ProviderIdentity

TRUE = (True, "true", "1")
"""How providers write a claim that holds."""
MAX_DEPTH = 8


def person_of(claims: Mapping[str, Any], issuer: str, login: LoginSettings) -> ProviderIdentity:
    """Somebody by the claims of the ID token and, where they were asked for, of the userinfo
    endpoint."""
    subject = str(claims["sub"])
    email = verified_email(claims)
    name = _first_text(claims, "name", "preferred_username", "email") or subject
    session = claims.get("sid")
    return ProviderIdentity(
        issuer=issuer,
        subject=subject,
        who=email or f"{name} ({subject})",
        name=name,
        email=email,
        groups=groups_of(claims, login.groups_claim),
        provider_session=session if isinstance(session, str) and session else None,
    )


def verified_email(claims: Mapping[str, Any]) -> str:
    """The address that the provider vouches for, in small letters; empty otherwise.

    Entra sends no `email_verified`, and its `email` may be anything that an administrator of
    another tenant typed; the optional claim `xms_edov` says that the domain's owner is the tenant
    (https://learn.microsoft.com/entra/identity-platform/migrate-off-email-claim-authorization).
    """
    email = claims.get("email")
    if not isinstance(email, str) or email.count("@") != 1 or not email.isprintable():
        return ""
    vouched = claims.get("email_verified", claims.get("xms_edov"))
    return (
        email.strip().lower()
        # In Python 1 == True, so compare the types too.
        if any(type(vouched) is type(true) and vouched == true for true in TRUE)
        else ""
    )


def groups_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The groups: the claim of this very name (Auth0's look like addresses), else the one that its
    dots lead to."""
    claim: Any = claims.get(name)
    if claim is None:
        claim = _at_path(claims, name)
    if isinstance(claim, str):
        return (claim,)
    if isinstance(claim, list):
        return tuple(group for group in claim if isinstance(group, str))
    return ()


def _at_path(claims: Mapping[str, Any], name: str) -> object:
    claim: object = claims
    for step in name.split(".", MAX_DEPTH):
        if not isinstance(claim, Mapping):
            return None
        claim = claim.get(step)
    return claim


def role_of(email: str, groups: Collection[str], login: LoginSettings) -> Role | None:
    """The highest role that the settings give; None lets nobody in."""
    # Without a verified address nobody belongs to a domain.
    if login.allowed_domains and not _is_of(email, login.allowed_domains):
        return None
    if (role := named_role(login, groups, [email])) is not None:
        return role
    return None if login.default_role == "none" else login.default_role


def teams_of(
    email: str, groups: Collection[str], teams: Mapping[str, TeamSettings]
) -> frozenset[str]:
    """The teams that name one of somebody's groups, or the address that the provider vouches
    for."""
    return frozenset(name for name, team in teams.items() if is_named(groups, [email], team.groups))


def _is_of(email: str, domains: Collection[str]) -> bool:
    domain = email.rpartition("@")[2]
    return bool(domain) and domain in {d.lower().lstrip("@") for d in domains}


def _first_text(claims: Mapping[str, Any], *names: str) -> str:
    for name in names:
        claim = claims.get(name)
        if isinstance(claim, str) and claim.strip():
            return claim.strip()
    return ""
