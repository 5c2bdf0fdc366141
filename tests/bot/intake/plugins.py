"""Packages that bring an alert source, installed for one test."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from faultline.bot.settings.settings import settings_model


class InstalledPackages:
    """A folder on Python's path, with packages in the form that an installer leaves behind."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._modules: list[str] = []
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)
        settings_model.cache_clear()

    def install(self, name: str, code: str, sources: Mapping[str, str] | None = None) -> None:
        """The package `faultline-NAME`, whose module `faultline_NAME` declares these sources, or
        the one source NAME."""
        module = f"faultline_{name}"
        lines = []
        for source, target in (sources or {name: f"{module}:ALERT_SOURCE"}).items():
            lines.append(f"{source} = {target}\n")
        info = self._folder / f"{module}-1.2.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: faultline-{name}\nVersion: 1.2\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text("[faultline.alert_sources]\n" + "".join(lines))
        (self._folder / f"{module}.py").write_text(code)
        self._modules.append(module)

    def remove(self) -> None:
        """Forget what was imported from here."""
        for module in self._modules:
            sys.modules.pop(module, None)
        settings_model.cache_clear()
