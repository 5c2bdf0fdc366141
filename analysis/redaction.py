"""Well-known secrets and personal data in a text.

Patterns follow gitleaks' rules for the vendors we meet. Every quantifier is bounded, so time is linear in the text.
A bare hexadecimal key is taken for one only beside its vendor's name: commits and trace ids look the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

_KEYS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|api[_\-]?key|access[_\-]?key(?:[_\-]?id)?|secret[_\-]?(?:access[_\-]?)?key"
    r"|client[_\-]?secret|private[_\-]?key|(?:auth|access|refresh|session|security)[_\-]?token|account[_\-]?key"
    r"|signing[_\-]?secret|routing[_\-]?key|integration[_\-]?key)"
)
_QUOTED = r"[\"']([^\"']{1,512})[\"']"
_BARE = r"([^\s\"',;&)\]}]{3,512})"
_HAS_DIGIT = r"(?=[^\s\"',;&]{0,200}\d)"

SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile("".join(parts)))
    for kind, parts in (
        (
            "PRIVATE_KEY",
            (
                r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{0,16384}",
                r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
            ),
        ),
        ("JWT", (r"\beyJ[\w\-]{8,2048}\.(?:eyJ)?[\w\-]{8,4096}(?:\.[\w\-]{0,1024})?",)),
        ("SLACK_WEBHOOK", (r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/\-]{10,200}",)),
        ("SLACK_TOKEN", (r"(?i:\bxox[abeoprs](?:\.xox[bp])?-[\w\-]{10,300}|\bxapp-\d-[\w\-]{10,300})",)),
        ("GITHUB_TOKEN", (r"\bgh[pousr]_\w{20,255}|\bgithub_pat_\w{20,255}",)),
        ("GITLAB_TOKEN", (r"\bgl(?:pat|dt|rt|cbt|ptt)-[\w\-]{16,255}",)),
        ("AWS_KEY", (r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{12,16}\b",)),
        ("GOOGLE_KEY", (r"\bAIza[\w\-]{30,40}",)),
        ("MODEL_KEY", (r"\bsk-[\w\-]{16,255}|\bhf_[A-Za-z0-9]{20,64}",)),
        ("STRIPE_KEY", (r"\b[sr]k_(?:live|test|prod)_\w{10,128}",)),
        ("PACKAGE_TOKEN", (r"\bnpm_[A-Za-z0-9]{30,64}|\bpypi-[\w\-]{40,255}",)),
        ("SENDGRID_KEY", (r"\bSG\.[\w\-]{16,64}\.[\w\-]{16,64}",)),
        (
            "DATADOG_KEY",
            (
                r"(?i:(?:datadog|\bdd)[\w\-]{0,24}(?:key|token)[\"']?\s{0,3}[=:]?\s{0,3}[\"']?)([0-9a-f]{32,40})\b",
                r"|\bddapp_\w{20,64}|\bddpat_\w{20,128}",
            ),
        ),
        (
            "PAGERDUTY_KEY",
            (
                r"(?i:pager[_\-]?duty[\w\-]{0,24}(?:key|token)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)([\w+\-]{16,64})",
                r"|(?<![\w+])[uy]\+[\w\-]{18}\b|(?i:token token=)\"?([\w+\-]{8,64})",
            ),
        ),
        ("AUTHORIZATION", (r"(?i:\bbearer[ =:]{1,3}|\bbasic )(?=\S{0,200}[\d=])([A-Za-z0-9+/=._~\-]{8,4096})",)),
        (
            "CONNECTION_PASSWORD",
            (r"\b[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s:/@\"']{0,128}:([^\s@/\"']{1,256})(?=@)",),
        ),
        ("SIGNATURE", (r"(?i:[?&](?:x-amz-signature|x-amz-security-token|sig|signature)=)([^\s&\"']{8,2048})",)),
        (
            "SECRET",
            (
                rf"(?i:(?<![a-z]){_KEYS}[\"']?\s{{0,3}}(?:=>|:=|=)\s{{0,3}})(?:{_QUOTED}|{_BARE})",
                rf"|(?i:(?<![a-z]){_KEYS}[\"']?\s{{0,3}}:\s{{0,3}})(?:{_QUOTED}|{_HAS_DIGIT}{_BARE})",
                rf"|(?i:(?<![a-z])token[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?){_HAS_DIGIT}(?=\S{{8}}){_BARE}",
            ),
        ),
    )
)
"""Kind and pattern. Where a pattern has groups, the group that matched is the secret; otherwise the whole match is."""

PERSONAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("EMAIL", re.compile(r"(?<![\w.+\-])[\w.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,5}")),
)
"""Not secret inside the user's own tools, but nobody else's business."""

_MASKED = re.compile(r"\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]")

_SUSPICIOUS = (
    r"(?i)pass|pwd|secret|key|token|bearer |basic |://[^\s/]*@|[?&](?:sig|x-amz)|eyJ|xox|xapp-|gh[pousr]_|github_pat"
    r"|gl(?:pat|dt|rt|cbt|ptt)-|AKIA|ASIA|ABIA|ACCA|A3T|AIza|sk-|hf_|[sr]k_|npm_|pypi-|SG\.|ddapp_|ddpat_|hooks\.slack"
    r"|[uy]\+"
)
"""Texts without any of these hold no secret that the patterns know; nearly all lines of a log are such."""


def masked(text: str) -> str:
    """The text with each secret replaced by its kind, `[AWS_KEY]`. Not reversible; e-mail addresses stay."""
    for kind, pattern in SECRETS:
        text = pattern.sub(replacing(lambda _secret, kind=kind: f"[{kind}]"), text)  # type: ignore[misc]
    return text


def mask_column(column: pl.Series) -> pl.Series:
    """A column of texts with the secrets in it masked; texts that look harmless are left alone in one pass."""
    suspicious = column.str.contains(_SUSPICIOUS).fill_null(False)
    if not suspicious.any():
        return column
    found = column.filter(suspicious).unique()
    clean = pl.Series([masked(text) for text in found.to_list()], dtype=pl.String)
    changed = found != clean
    if not changed.any():
        return column
    return column.replace(found.filter(changed), clean.filter(changed))


def replacing(replacement: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    """For `re.sub` with a pattern of SECRETS: replaces the secret within the match."""

    def replace(match: re.Match[str]) -> str:
        group = match.lastindex or 0
        secret = match.group(group)
        if _MASKED.match(match.string, match.start(group)):
            return match.group()
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match.group()[:start] + replacement(secret) + match.group()[end:]

    return replace
