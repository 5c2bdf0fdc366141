"""Known vulnerabilities of what a release installs: `python -m infra.release.vulnerabilities UV
[OPTION ...]`.

`uv audit` asks osv.dev, or the service that `--service-url` names. No package on PyPI holds a
current copy of that database (safety-db's is of 2021), so without a network nothing
is audited, and the exit code says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

VULNERABLE, NOT_AUDITED = 1, 2
ASKS = ("--frozen", "--no-dev", "--no-extra", "lab", "--preview-features", "audit-command")
NO_DATABASE = (
    "run: NOT audited: the database of known vulnerabilities (osv.dev) could not be asked, and no "
    "package holds a current copy of it"
)


def audit(uv: str, options: Sequence[str] = ()) -> tuple[int, str]:
    """The exit code and what to say: 0 where nothing is known, `VULNERABLE`, or `NOT_AUDITED`."""
    command = [uv, "audit", "-q", *ASKS, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, VULNERABLE):
        return NOT_AUDITED, NO_DATABASE
    return ended.returncode, (ended.stdout + ended.stderr).strip()


def main() -> None:
    """Print what is known; the exit code is `audit`'s."""
    code, message = audit(sys.argv[1], sys.argv[2:])
    if message:
        sys.stderr.write(f"{message}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
