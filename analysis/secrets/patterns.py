"""What secrets look like: kind and pattern, one row each.

The shapes of vendors' keys are those of gitleaks' rules (github.com/gitleaks/gitleaks,
config/gitleaks.toml). Every quantifier is bounded and no two that overlap follow each other, so
time is linear in the text. A bare hexadecimal key is taken for one only beside its vendor's name:
commits and trace ids look the same.
"""

from __future__ import annotations

import re

_VENDOR_KEYS: tuple[tuple[str, str], ...] = (
    ("LTAI", r"\bLTAI[A-Za-z0-9]{12,24}\b"),  # Alibaba Cloud
    ("AKID", r"\bAKID[A-Za-z0-9]{32}\b"),  # Tencent Cloud
    ("_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),  # DigitalOcean
    ("ya29. GOCSPX-", r"\bya29\.[\w\-]{20,512}|\bGOCSPX-[\w\-]{20,40}"),  # Google OAuth
    ("Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.\-]{31,34}"),  # Microsoft Entra client secret
    ("hvs. hvb. hvr.", r"\bhv[sbr]\.[\w\-]{20,300}"),  # HashiCorp Vault
    (".atlasv1.", r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w\-=]{60,70}"),  # HCP Terraform
    ("pul-", r"\bpul-[a-f0-9]{40}\b"),  # Pulumi
    ("dp.", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.\-]{30,80}"),  # Doppler
    ("dapi", r"\bdapi[a-f0-9]{32}\b"),  # Databricks
    ("glsa_ glc_", r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b|\bglc_[A-Za-z0-9+/=]{32,400}"),  # Grafana
    (
        "NRAK- NRJS- NRII- NRIQ- NRRA- NRSP-",
        r"\bNR(?:AK|JS|II|IQ|RA|SP)-[\w\-]{16,64}",
    ),  # New Relic
    ("sntry", r"\bsntry[su]_[\w+/=\-]{40,400}"),  # Sentry
    ("dt0", r"\bdt0[a-z]\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}\b"),  # Dynatrace
    (
        "ATATT3 ATCTT3 ATBB",
        r"\bATATT3[\w\-=]{60,250}|\bATCTT3[\w\-=]{60,250}|\bATBB[\w=.]{20,60}",
    ),  # Atlassian
    ("lin_api_", r"\blin_api_[A-Za-z0-9]{32,48}"),  # Linear
    ("shpat_ shpca_ shppa_ shpss_", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),  # Shopify
    ("sq0", r"\bsq0(?:atp|csp|idp)-[\w\-]{22,43}"),  # Square
    ("SK", r"\bSK[0-9a-f]{32}\b"),  # Twilio
    ("key- -us", r"\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b"),  # Mailgun, Mailchimp
    (":AA", r"\b\d{8,10}:AA[\w\-]{32,34}"),  # Telegram
    ("dckr_", r"\bdckr_(?:pat|oat)_[\w\-]{20,60}"),  # Docker
    ("pscale_", r"\bpscale_(?:tkn|pw|oauth)_[\w=.\-]{32,64}"),  # PlanetScale
    ("sbp_ sbs_ sb_secret_", r"\bsb[ps]_[a-f0-9]{40}\b|\bsb_secret_[\w\-]{20,60}"),  # Supabase
    (
        "ops_eyJ A3-",
        r"\bops_eyJ[A-Za-z0-9+/=]{60,2000}|\bA3-[A-Z0-9]{6}-[A-Z0-9\-]{20,40}",
    ),  # 1Password
    # Models.
    (
        "gsk_ r8_ xai- pplx-",
        r"\bgsk_[A-Za-z0-9]{40,64}|\br8_[A-Za-z0-9]{30,48}|\bxai-[A-Za-z0-9]{40,100}"
        r"|\bpplx-[A-Za-z0-9]{40,64}",
    ),
    ("rubygems_ AKCp", r"\brubygems_[a-f0-9]{48}\b|\bAKCp[A-Za-z0-9]{69}\b"),  # registries
    ("AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    (
        "discord",
        r"(?<=discord\.com/api/webhooks/)\d{15,22}/[\w\-]{40,100}|(?<=discordapp\.com/api/webhooks/"
        r")\d{15,22}/[\w\-]{40,100}",
    ),
    ("SSWS Ssws ssws", r"(?i:\bSSWS )[\w\-]{30,60}"),  # Okta
    ("s.", r"(?<![\w.])s\.[A-Za-z0-9]{24}(?![\w.])"),  # HashiCorp Vault before 1.10
    ("PMAK-", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),  # Postman
    ("secret_ ntn_", r"\bsecret_[A-Za-z0-9]{43}\b|\bntn_[A-Za-z0-9]{40,60}\b"),  # Notion
    ("fig", r"\bfig[dorh]{1,2}_[\w\-]{40,60}"),  # Figma
    ("pat", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),  # Airtable
    ("pat.", r"\bpat\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b"),  # Harness
    ("p8e-", r"\bp8e-[a-z0-9]{32}\b"),  # Adobe
    ("cmVmd", r"\bcmVmd[A-Za-z0-9]{59}\b"),  # Artifactory
    ("bkua_ CLOJARS_", r"\bbkua_[a-z0-9]{40}\b|\bCLOJARS_[a-z0-9]{60}\b"),  # Buildkite, Clojars
    ("duffel_", r"\bduffel_(?:test|live)_[\w=\-]{43}"),  # Duffel
    ("EZAK EZTK", r"\bEZ[AT]K[A-Za-z0-9]{54}\b"),  # EasyPost
    ("FLW", r"\bFLW(?:PUB|SEC)K(?:_TEST)?-[a-f0-9]{12,32}"),  # Flutterwave
    ("fo1_ fm1 fm2", r"\bfo1_[\w\-]{43}|\bfm[12][ar]?_[A-Za-z0-9+/]{100,600}={0,3}"),  # Fly.io
    ("fio-u-", r"\bfio-u-[\w=\-]{64}"),  # Frame.io
    (
        "live_ test_ sandbox_",
        r"\b(?:live|test|sandbox)_(?=[\w=\-]{0,40}\d)[\w=\-]{32,64}",
    ),  # GoCardless, Lob
    ("HRKU-AA", r"\bHRKU-AA[\w\-]{50,64}"),  # Heroku
    ("pat-", r"\bpat-(?:na|eu)\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),  # HubSpot
    ("ico- s-s4t2", r"\bico-[A-Za-z0-9]{32}\b|\bs-s4t2(?:ud|af)-[a-f0-9]{64}"),  # Infracost, 42
    ("xkeysib-", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),  # Brevo
    (
        "rdme_ pnu_ tk-us-",
        r"\brdme_[a-z0-9]{70}|\bpnu_[A-Za-z0-9]{36}|\btk-us-[\w\-]{48}",
    ),  # ReadMe, Prefect, Scalingo
    ("shippo_", r"\bshippo_(?:live|test)_[a-f0-9]{40}\b"),  # Shippo
    (
        "sgp_ sqp_ squ_ sqa_",
        r"\bsgp_(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}\b|\bsq[upa]_[a-f0-9]{40}\b",
    ),  # Sourcegraph, Sonar
    (
        "tfp_ sm_",
        r"\btfp_[\w.=\-]{40,80}|\bsm_(?:pat|sat|aat)_[A-Za-z0-9]{16}\b",
    ),  # Typeform, SettleMint
    (
        "t1. AQVN YC",
        r"\bt1\.[\w\-]{20,200}={0,2}\.[\w\-]{86}={0,2}|\bAQVN[\w\-]{35,38}|\bYC[\w\-]{38}",
    ),  # Yandex
    ("sha256~", r"\bsha256~[\w\-]{43}"),  # OpenShift
    ("v1.0-", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),  # Cloudflare Origin CA
    ("_mmk", r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),  # MaxMind
    ("sk. pk.", r"\b[sp]k\.[a-z0-9]{20,100}\.[\w\-]{20,40}"),  # Mapbox
    ("GOOG", r"\bGOOG[A-Z0-9]{20,57}\b"),  # Google Cloud Storage HMAC
    ("CFPAT- nfp_", r"\bCFPAT-[\w\-]{43}|\bnfp_[A-Za-z0-9]{36,40}"),  # Contentful, Netlify
    (
        "tskey- phx_ whsec_",
        r"\btskey-[\w\-]{16,100}|\bphx_[A-Za-z0-9]{40,60}|\bwhsec_[\w+/=]{20,80}",
    ),  # Tailscale, PostHog
    (
        "EAA IGQ AAAAAAAAAAAAAAAAAAAA",
        r"\bEAA[A-Za-z0-9]{60,300}|\bIGQ[\w\-]{60,300}|\bA{20,22}%[A-Za-z0-9%]{60,150}",
    ),  # Meta, X
    ("-", r"\b[a-z0-9]{32}-[a-z0-9]{8}-[a-z0-9]{8}\b"),  # Mailgun
    ("telegram", r"(?<=api\.telegram\.org/bot)\d{5,16}:[\w\-]{30,40}"),
)

# A hint is one word of the text: that is found faster than any pattern.
VENDOR_KEYS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (tuple(hints.split()), re.compile(pattern)) for hints, pattern in _VENDOR_KEYS
)
"""By what a text must hold, in this case, for the form to be looked for."""
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
        (
            "AUTHORIZATION",
            (
                r"(?i:\bbearer[ =:,]{1,3}|\bbasic )(?=\S{0,200}[\d=])([A-Za-z0-9+/=._~\-]{8,4096})",
                r"|(?i:\bAUTH PLAIN )([A-Za-z0-9+/=]{8,512})",
            ),
        ),
        (
            "CONNECTION_PASSWORD",
            (
                # what stands before the last @ that a host follows, unless it begins with a port
                r"(?:\b[A-Za-z][A-Za-z0-9+.\-]{1,30}:)?//[^\s:/@\"'<>]{0,128}:(?!\d{1,5}(?:/|\s|$))",
                r"([^\s\"'`<>]{1,256})(?=@[\w.\-\[\]]{1,253}(?::\d{1,5})?(?:[/?#\s\"'`),;\]}>]|$))",
                r"|\b[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s:/@\"']{0,128}:([^\s@/\"']{1,256})(?=@)",
                # a token in a user's place
                r"|://(?=[^\s:/@]{0,128}\d)([A-Za-z0-9_\-]{20,128})(?=(?::[^\s/@]{0,64})?@)",
                # drivers of Go, clients of Oracle
                r"|(?<![\w/:])[\w.\-]{1,64}:([^\s:@\"'/]{1,128})(?=@(?:tcp|unix|udp)\()",
                r"|(?i:\bconnect |oracle:thin:)[\w.\-]{1,64}/([^\s@/\"']{1,128})(?=@)",
                r"|(?<![\w/:.])[\w.*\-]{1,253}:(?:\d{2,5}|\*):[\w.*\-]{1,64}:[\w.*\-]{1,64}:",
                r"([^\s:\"',]{3,128})(?=\s|$)",
            ),
        ),
        (
            "PASSWORD_HASH",
            (
                r"\$(?:2[abxy]?|apr1|argon2(?:id|i|d)|scrypt|y|gy|[1567]|pbkdf2[\w\-]{0,20})\$",
                r"[\w./$=,+\-]{16,256}",
            ),
        ),
        (
            "SIGNATURE",
            (
                r"(?i:(?<![a-z0-9])(?:x-(?:amz|goog)-(?:signature|security-token|credential)|sig",
                r"|signature)=)([^\s&\"'<>;,]{8,2048})",
            ),
        ),
        (
            "OAUTH_CODE",
            (
                r"(?i:[?&](?:code|state|code_verifier|ticket|hash|otp|nonce)=)",
                r"(?=[^\s&\"']{0,200}\d)([\w.\-~%+/]{16,512})",
            ),
        ),
        (
            # letters of both cases and digits: an id of a row or a commit is none
            "LINK_TOKEN",
            (
                r"(?i:/(?:invite|invites|invitations?|join|reset|reset[_\-]?password|password[_\-]?reset"
                r"|magic|magic[_\-]?link|verify|verification|activate|activation|confirm|confirmation"
                r"|one[_\-]?time|unlock)/)(?=[\w\-]{0,200}\d)(?=[\w\-]{0,200}[a-z])"
                r"(?=[\w\-]{0,200}[A-Z])([\w\-]{20,200})",
            ),
        ),
        (
            "WEBHOOK",
            (
                r"(?i:(?<=webhook\.office\.com/webhookb2/)|(?<=outlook\.office\.com/webhook/)|(?<=outlook\.office365\.com/webhook/))",
                r"[\w@\-/]{36,300}|(?<=hooks\.zapier\.com/hooks/catch/)[\w/]{6,80}",
                r"|(?<=events\.pagerduty\.com/integration/)[a-f0-9]{32}|(?<=hc-ping\.com/)[\w\-]{20,64}",
                r"|(?<=hooks\.chime\.aws/incomingwebhooks/)[\w\-?=]{20,200}|(?<=maker\.ifttt\.com/use/)[\w\-]{16,64}",
                r"|(?<=alert\.victorops\.com/integrations/generic/20131114/alert/)[\w\-]{20,64}",
            ),
        ),
    )
)
"""Kind and pattern. Where a pattern has groups, the group that matched is the secret; otherwise the
whole match is."""


HINTS: dict[str, tuple[str, ...]] = {
    "GITHUB_TOKEN": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GITLAB_TOKEN": ("glpat", "gldt", "glrt", "glcbt", "glptt", "glsoat", "glft", "glagent"),
    "AWS_KEY": ("akia", "asia", "abia", "acca", "a3t"),
    "GOOGLE_KEY": ("aiza",),
    "MODEL_KEY": ("sk-", "hf_"),
    "STRIPE_KEY": ("k_live_", "k_test_", "k_prod_", "whsec_"),
    "PACKAGE_TOKEN": ("npm_", "pypi-"),
    "SENDGRID_KEY": ("sg.",),
    "JWT": ("eyj",),
    "SLACK_WEBHOOK": ("slack.com",),
    "SLACK_TOKEN": ("xox", "xapp-"),
    "DATADOG_KEY": (
        "datadog",
        "dd",
    ),
    "PAGERDUTY_KEY": ("pager", "y+", "u+", "token token"),
    "CLOUD_KEY": (
        *("aws", "amazon", "secret", "s3", "cloudflare", "cf", "fastly", "heroku", "twilio"),
        *("algolia", "azure", "newrelic", "honeycomb", "mongodb"),
    ),
    "AUTHORIZATION": ("bearer", "basic", "auth plain"),
    "CONNECTION_PASSWORD": ("@", ":"),
    "PASSWORD_HASH": ("$",),
    "SIGNATURE": ("sig", "credential", "security-token"),
    "OAUTH_CODE": ("?", "&"),
    "LINK_TOKEN": (
        *("/invit", "/join/", "reset", "/magic", "/verif", "/activat", "/confirm", "time/"),
        "/unlock/",
    ),
    "WEBHOOK": ("office", "zapier", "pagerduty.com", "hc-ping", "chime", "ifttt", "victorops"),
}
"""What a text must hold, in small letters, for a kind to be looked for; kinds that are not here are
always looked for."""

SUSPICIOUS = (
    r"(?i)pass|pwd|secret|key|token|cred|cookie|sess|sid|csrf|xsrf|auth|bearer"
    r"|securestring|basic |ssws |jwt"
    r"|sig|hmac|otp|identif|(?:^|[^a-z])(?:pw|pin)[^a-z]"
    r"|://[^\s/]*@|//[^\s/]*:[^\s]*@|\w:[^\s]*@(?:tcp|unix|udp)|oracle:thin|connect \S+/"
    r"|\$(?:2[abxy]?|apr1|argon|[1567]|y)\$|:(?:\d+|\*):[^:\s]*:[^:\s]*:"
    r"|[?&](?:code|state|hash|ticket|nonce|x-amz|x-goog)"
    r"|curl|--(?:proxy-)?user|mysql|mariadb|mongo|redis-cli|ldap|openssl|smbclient|net use|login"
    r"|pgp_sym|private-lines|kty|webhook|zapier|pagerduty\.com|hc-ping|chime|ifttt|victorops"
    r"|macaroon|(?:n|y|p|e|a|s|k|g)[_\- ]?code[^a-z]|\s-a\s|psk|phrase|pword|kennwort|contrase"
    r"|senha"
    r"|/(?:invit|join|reset|magic|verif|activat|confirm|one[_\-]?time|unlock)"
    r"|rabbitmqctl|zip |snmp|sudo|kinit"
    r"|telegram|eyJ|xox|xapp-|gh[pousr]_|github_pat|gl(?:pat|dt|rt|cbt|ptt|soat|ft"
    r"|agent)-|AKIA|ASIA|ABIA|ACCA"
    r"|A3T|AIza|sk-|hf_|[sr]k_|whsec_|npm_|pypi-|SG\.|ddapp_|ddpat_|hooks\.slack|[uy]\+|aws|amazon"
    r"|s3|LTAI|AKID|_v1_|(?-i:[^A-Za-z0-9_.]s\.[A-Za-z0-9]{24})"
    r"|ya29\.|GOCSPX|Q~|hv[sbr]\.|atlasv1|pul-|dp\.|dapi|glsa_|glc_|NR[A-Z]{2}-|sntry|dt0"
    r"|AT[AC]TT3|ATBB|lin_api|shp|sq0"
    r"|SK[0-9a-f]{32}|-us\d|:AA|dckr_|pscale_|sb[ps]_|sb_|ops_|A3-|gsk_|r8_|xai-|pplx-|rubygems_"
    r"|AKCp|discord|PMAK|ntn_|fig[dorh]|pat[a-z0-9_.-]{14}|p8e-|cmVmd|bkua_|CLOJARS|duffel_|EZ[AT]K|FLW"
    r"|fo1_|fm[12]|fio-u|live_|test_|sandbox_|HRKU|ico-|s4t2|xkeysib|rdme_|pnu_|tk-us|shippo_|sgp_"
    r"|sq[upa]_|tfp_|sm_|t1\.|AQVN|(?-i:YC[A-Za-z0-9_-]{38})|sha256~|v1\.0-|_mmk|[sp]k\.|GOOG|CFPAT|nfp_|phx_"
    r"|EAA|IGQ|-[a-z0-9]{8}-[a-z0-9]{8}"
    r"|%(?:25)?(?:3d|22|3a)"
)
"""Texts without any of these hold no secret that is known by its shape or its name; most lines of a
log are such. Repetitions that are counted stand apart, and classes are of ASCII: together they made
one search a thousand times slower."""
WRAPPED = r"(?m)^\s{0,8}[A-Za-z0-9+/]{60,76}\s{0,4}$"
"""A line of a key that was written in lines."""
PACKED = r"[A-Z][A-Za-z0-9+/_-]{16}|[A-Za-z0-9+/_-]{16}[A-Z]"
"""What may be base64, or random. No other kind of secret needs it."""
