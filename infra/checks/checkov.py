"""checkov (https://www.checkov.io) on modules and manifests: all its checks of Terraform and
Kubernetes, but those listed here with a reason."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra.checks.tools import CHECKOV, tool

TIMEOUT_S = 900

PASSED_OVER: Mapping[str, str] = {
    "CKV_AWS_18": "access to cases goes through the bot, which keeps an audit; CloudTrail data "
    "events tell more",
    "CKV_AWS_118": "enhanced monitoring counts processes inside the database's machine; the "
    "alarms need none of it",
    "CKV_AWS_144": "a second region is the operator's decision; cases can be investigated again",
    "CKV_AWS_161": "the bot logs in by password over verified TLS; tokens would have to be "
    "renewed every 15 minutes",
    "CKV_AWS_192": "the rule group is there, but not for signed webhooks, which may quote such a "
    "text",
    "CKV_AWS_260": "port 80 only sends on to HTTPS",
    "CKV2_AWS_57": "vendors' secrets are replaced at the vendor; the database's by "
    "database_password_version",
    "CKV2_AWS_62": "nobody waits for events of the bucket",
    "CKV2_AWS_76": "as CKV_AWS_192",
    "CKV_K8S_9": "nobody sends requests to a worker, so it is never unready",
    "CKV_K8S_11": "a limit on CPU only slows an investigation down; memory has its limit",
    "CKV_K8S_15": "a version's image does not change",
    "CKV_K8S_35": "a secret may also come from a mounted file: FAULTLINE_..._FILE",
    "CKV_K8S_38": "the workers' token is mounted where they shall read the cluster",
    "CKV_K8S_43": "the operator's registry decides the digest: image.digest",
}
"""Check to the reason why it may fail."""


def failed_checks(folder: Path, checks: list[str] | None = None) -> dict[str, list[str]]:
    """Check to the resources that fail it, as `file resource`. Raises NotHere."""
    command = [
        str(tool(CHECKOV)),
        "-d",
        str(folder),
        "--framework",
        "terraform",
        "kubernetes",
        "--quiet",
        "--compact",
        "-o",
        "json",
    ]
    command += ["--check", ",".join(checks)] if checks else []
    environ = dict(os.environ) | {
        "LOG_LEVEL": "ERROR",
        "BC_SKIP_MAPPING": "TRUE",
        "CKV_IGNORE_HIDDEN_DIRECTORIES": "true",
    }
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environ, check=False
    )
    reports = json.loads(ran.stdout)
    failures: dict[str, list[str]] = {}
    for report in reports if isinstance(reports, list) else [reports]:
        for failed_check in report.get("results", {}).get("failed_checks", []):
            failures.setdefault(failed_check["check_id"], []).append(
                f"{failed_check['file_path']} {failed_check['resource']}"
            )
    return failures
