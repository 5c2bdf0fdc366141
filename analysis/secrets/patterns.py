"""What secrets look like: kind and pattern, one row each.

The shapes of vendors' keys are those of gitleaks' rules (github.com/gitleaks/gitleaks,
config/gitleaks.toml). Every quantifier is bounded and no two that overlap follow each other, so
time is linear in the text. A bare hexadecimal key is taken for one only beside its vendor's name:
commits and trace ids look the same.
"""

from __future__ import annotations

import re

_KEYS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|api[_\-]?key|access[_\-]?key(?:[_\-]?id)?|secret[_\-]?"
    r"(?:access[_\-]?)?key"
    r"|client[_\-]?secret|private[_\-]?key|(?:auth|access|refresh|session|security|csrf"
    r"|xsrf)[_\-]?token|account[_\-]?key"
    r"|signing[_\-]?secret|routing[_\-]?key|integration[_\-]?key|license[_\-]?key"
    r"|encryption[_\-]?key|credentials?)"
)
_QUOTED = r"[\"']([^\"']{1,512})[\"']"
_BARE = r"([^\s\"',;&)\]}]{3,512})"
_HAS_DIGIT = r"(?=[^\s\"',;&]{0,200}\d)"
_SESSION = r"(?:(?:j|php|asp|asp\.net_)?sess(?:ion)?[_\-]?(?:id|key)?|connect\.sid|sid|csrf|xsrf)"
_VENDOR_KEYS = (
    r"\bLTAI[A-Za-z0-9]{12,24}\b",  # Alibaba Cloud
    r"\bAKID[A-Za-z0-9]{32}\b",  # Tencent Cloud
    r"\bdo[opr]_v1_[a-f0-9]{64}\b",  # DigitalOcean
    r"\bya29\.[\w\-]{20,512}|\bGOCSPX-[\w\-]{20,40}",  # Google OAuth
    r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.\-]{31,34}",  # Microsoft Entra client secret
    r"\bhv[sbr]\.[\w\-]{20,300}",  # HashiCorp Vault
    r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w\-=]{60,70}",  # HCP Terraform
    r"\bpul-[a-f0-9]{40}\b",  # Pulumi
    r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.\-]{30,80}",  # Doppler
    r"\bdapi[a-f0-9]{32}\b",  # Databricks
    r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b|\bglc_[A-Za-z0-9+/=]{32,400}",  # Grafana
    r"\bNR(?:AK|JS|II|IQ|RA|SP)-[\w\-]{16,64}",  # New Relic
    r"\bsntry[su]_[\w+/=\-]{40,400}",  # Sentry
    r"\bdt0[a-z]\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}\b",  # Dynatrace
    r"\bATATT3[\w\-=]{60,250}|\bATCTT3[\w\-=]{60,250}|\bATBB[\w=.]{20,60}",  # Atlassian
    r"\blin_api_[A-Za-z0-9]{32,48}",  # Linear
    r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",  # Shopify
    r"\bsq0(?:atp|csp|idp)-[\w\-]{22,43}",  # Square
    r"\bSK[0-9a-f]{32}\b",  # Twilio
    r"\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b",  # Mailgun, Mailchimp
    r"\b\d{8,10}:AA[\w\-]{32,34}",  # Telegram
    r"\bdckr_(?:pat|oat)_[\w\-]{20,60}",  # Docker
    r"\bpscale_(?:tkn|pw|oauth)_[\w=.\-]{32,64}",  # PlanetScale
    r"\bsb[ps]_[a-f0-9]{40}\b|\bsb_secret_[\w\-]{20,60}",  # Supabase
    r"\bops_eyJ[A-Za-z0-9+/=]{60,2000}|\bA3-[A-Z0-9]{6}-[A-Z0-9\-]{20,40}",  # 1Password
    # Models.
    r"\bgsk_[A-Za-z0-9]{40,64}|\br8_[A-Za-z0-9]{30,48}|\bxai-[A-Za-z0-9]{40,100}"
    r"|\bpplx-[A-Za-z0-9]{40,64}",
    r"\brubygems_[a-f0-9]{48}\b|\bAKCp[A-Za-z0-9]{69}\b",  # registries
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
    r"(?<=discord\.com/api/webhooks/)\d{15,22}/[\w\-]{40,100}|(?<=discordapp\.com/api/webhooks/"
    r")\d{15,22}/[\w\-]{40,100}",
    r"(?i:\bSSWS )[\w\-]{30,60}",  # Okta
)

SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile("".join(parts)))
    for kind, parts in (
        (
            "PRIVATE_KEY",
            (
                r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
                r"(?:(?:(?!-----)[\s\S]){0,16384}-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
                r"|[A-Za-z0-9+/=\s\\]{0,16384})",
                # one line of a key whose lines were logged one by one
                r"|(?m:^)\s{0,8}(?=[^\s]{0,70}[a-z])(?=[^\s]{0,70}[A-Z])(?=[^\s]{0,70}[0-9+/])",
                r"[A-Za-z0-9+/]{60,76}(?m:\s{0,4}$)",
            ),
        ),
        ("JWT", (r"\beyJ[\w\-]{8,2048}\.(?:eyJ)?[\w\-]{8,4096}(?:\.[\w\-]{0,1024})?",)),
        (
            "SLACK_WEBHOOK",
            (r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/\-]{10,200}",),
        ),
        (
            "SLACK_TOKEN",
            (r"(?i:\bxox[abeoprs](?:\.xox[bp])?-[\w\-]{10,300}|\bxapp-\d-[\w\-]{10,300})",),
        ),
        ("GITHUB_TOKEN", (r"\bgh[pousr]_\w{20,255}|\bgithub_pat_\w{20,255}",)),
        ("GITLAB_TOKEN", (r"\bgl(?:pat|dt|rt|cbt|ptt|soat|ft|agent)-[\w\-]{16,255}",)),
        ("AWS_KEY", (r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{12,16}\b",)),
        ("GOOGLE_KEY", (r"\bAIza[\w\-]{30,40}",)),
        ("MODEL_KEY", (r"\bsk-[\w\-]{16,255}|\bhf_[A-Za-z0-9]{20,64}",)),
        ("STRIPE_KEY", (r"\b[sr]k_(?:live|test|prod)_\w{10,128}|\bwhsec_[\w+/=]{20,80}",)),
        ("PACKAGE_TOKEN", (r"\bnpm_[A-Za-z0-9]{30,64}|\bpypi-[\w\-]{40,255}",)),
        ("SENDGRID_KEY", (r"\bSG\.[\w\-]{16,64}\.[\w\-]{16,64}",)),
        (
            "DATADOG_KEY",
            (
                r"(?i:(?:datadog|\bdd)[\w\-]{0,24}(?:key|token)[\"']?\s{0,3}[=:]?\s{0,3}[\"']?)"
                r"([0-9a-f]{32,40})\b",
                r"|\bddapp_\w{20,64}|\bddpat_\w{20,128}",
            ),
        ),
        (
            "PAGERDUTY_KEY",
            (
                r"(?i:pager[_\-]?duty[\w\-]{0,24}(?:key|token)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
                r"([\w+\-]{16,64})",
                r"|(?<![\w+])[uy]\+[\w\-]{18}\b|(?i:token token=)\"?([\w+\-]{8,64})",
            ),
        ),
        (
            "CLOUD_KEY",
            (
                r"(?i:\b(?:aws|amazon|secret|s3)[\w\-. ]{0,24}[\"']?\s{0,3}[=:]\s{0,3}[\"']?)",
                r"(?=[^\s]{0,39}[A-Z])(?=[^\s]{0,39}[a-z])([A-Za-z0-9/+]{40})(?![\w/+])",
                r"|(?i:\b(?:cloudflare|cf|fastly|heroku|twilio|algolia|azure|newrelic|honeycomb"
                r"|mongodb)[\w\-]{0,24}(?:key|token|secret)",
                r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?)([\w\-]{20,128})",
            ),
        ),
        ("VENDOR_KEY", ("|".join(_VENDOR_KEYS),)),
        (
            "AUTHORIZATION",
            (r"(?i:\bbearer[ =:]{1,3}|\bbasic )(?=\S{0,200}[\d=])([A-Za-z0-9+/=._~\-]{8,4096})",),
        ),
        (
            "CONNECTION_PASSWORD",
            (r"\b[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s:/@\"']{0,128}:([^\s@/\"']{1,256})(?=@)",),
        ),
        (
            "SIGNATURE",
            (
                r"(?i:[?&](?:x-amz-signature|x-amz-security-token|sig|signature)=)([^\s&\"']{8,"
                r"2048})",
            ),
        ),
        (
            "COOKIE",
            (
                r"(?i:\b(?:set-)?cookies?[\"']?\s{0,3}[:=]\s{0,3}[\"']?)([\w.\-]{1,64}=[^\r\n"
                r"\"']{1,4096})",
            ),
        ),
        (
            "SESSION",
            (
                rf"(?i:(?<![a-z]){_SESSION}[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?){_HAS_DIGIT}"
                rf"(?=[^\s\"',;&]{{8}}){_BARE}",
            ),
        ),
        (
            "SECRET",
            (
                rf"(?i:(?<![a-z]){_KEYS}[\"']?\s{{0,3}}(?:=>|:=|=)\s{{0,3}})(?:{_QUOTED}|{_BARE})",
                rf"|(?i:(?<![a-z]){_KEYS}[\"']?\s{{0,3}}:\s{{0,3}})(?:{_QUOTED}"
                rf"|{_HAS_DIGIT}{_BARE})",
                rf"|(?i:(?<![a-z])token[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?){_HAS_DIGIT}"
                rf"(?=\S{{8}}){_BARE}",
            ),
        ),
    )
)
"""Kind and pattern. Where a pattern has groups, the group that matched is the secret; otherwise the
whole match is."""

SUSPICIOUS = (
    r"(?i)pass|pwd|secret|key|token|credential|cookie|sess|sid|csrf|xsrf|bearer |basic |ssws "
    r"|://[^\s/]*@"
    r"|[?&](?:sig|x-amz)|eyJ|xox|xapp-|gh[pousr]_|github_pat|gl(?:pat|dt|rt|cbt|ptt|soat|ft"
    r"|agent)-|AKIA|ASIA|ABIA|ACCA"
    r"|A3T|AIza|sk-|hf_|[sr]k_|whsec_|npm_|pypi-|SG\.|ddapp_|ddpat_|hooks\.slack|[uy]\+|aws|amazon"
    r"|s3|LTAI|AKID|_v1_"
    r"|ya29\.|GOCSPX|Q~|hv[sbr]\.|atlasv1|pul-|dp\.|dapi|glsa_|glc_|NR[A-Z]{2}-|sntry|dt0"
    r"|AT[AC]TT3|ATBB|lin_api|shp|sq0"
    r"|SK[0-9a-f]{32}|-us\d|:AA|dckr_|pscale_|sb[ps]_|sb_|ops_|A3-|gsk_|r8_|xai-|pplx-|rubygems_"
    r"|AKCp|discord"
    r"|(?-i:(?m:^)\s{0,8}[A-Za-z0-9+/]{60,76}\s{0,4}(?m:$))"
)
"""Texts without any of these hold no secret that the patterns know; nearly all lines of a log are
such."""
