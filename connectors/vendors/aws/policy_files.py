"""Writes what infra/terraform allows the bot in AWS, from the list of operations.

`python -m faultline.connectors.vendors.aws.policy_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from faultline.connectors.vendors.aws.operations import iam_policy, storage_actions

MODULES = Path(__file__).resolve().parents[3] / "infra/terraform/modules"


def policy_files() -> Mapping[Path, str]:
    """Each file and its content."""
    return {
        MODULES / "read-only-role/connector-policy.json": iam_policy() + "\n",
        MODULES / "case-store/storage-actions.json": storage_actions() + "\n",
    }


if __name__ == "__main__":
    for file, content in policy_files().items():
        file.write_text(content, encoding="utf-8")
