"""A check that a test takes nothing from outside: a file of the user's home, or one that lay in the
folder for temporary files, or below /var, before the tests began.

Such a test passes on the machine of whoever wrote it and fails on a stranger's. What programs read
that a test starts is not seen here: `.ci/run` starts them where there is nothing to read.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HOME_OF_PROJECT = Path(__file__).resolve().parents[1]
READS = {"open", "os.listdir", "os.scandir"}
OF_EVERY_MACHINE = ("/var/lib/dpkg", "/var/lib/apt", "/var/cache/fontconfig")
"""What Debian has everywhere."""


class OutsideReads:
    """Paths that were read outside, since the last call of `taken`."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        temporary = tempfile.gettempdir()
        self._temporary = temporary
        # pytest keeps the folders of its last three runs there.
        self._earlier = {
            os.path.join(temporary, name)
            for name in os.listdir(temporary)
            if not name.startswith("pytest-of-")
        }
        inside = {HOME_OF_PROJECT, Path(sys.prefix), Path(sys.base_prefix)}
        # A virtual environment may be a link, and packages may lie where only links lead to.
        inside |= {Path(entry) for entry in sys.path if entry}
        # The public data sets lie beside the project: their fixture skips where they are missing.
        inside.add(HOME_OF_PROJECT.parent / "shared")
        forms = {form for path in inside for form in (path, path.resolve())}
        # With the slash: a folder beside the project may begin with its name.
        self._inside = tuple(f"{form}/" for form in forms)
        self._outside = (os.path.expanduser("~"), "/var", "/srv")

    def watch(self) -> None:
        """Look from now on at each file that this process opens, and each folder that it lists."""
        sys.addaudithook(self.hook)

    def taken(self) -> list[str]:
        paths, self._paths = sorted(self._paths), set()
        return paths

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in READS or not arguments or not isinstance(arguments[0], str):
            return
        path = arguments[0]
        if not path.startswith("/") or path.startswith(OF_EVERY_MACHINE):
            return
        if f"{path}/".startswith(self._inside):
            return
        if path == self._temporary or path.startswith(f"{self._temporary}/"):
            # That folder may lie below /var or the home: there only what lay in it before counts.
            is_outside = any(path == name or path.startswith(f"{name}/") for name in self._earlier)
        else:
            is_outside = path.startswith(self._outside)
        if is_outside and os.path.exists(path):
            self._paths.add(path)
