"""What a program does that sees the packages of a `Machine`, to be run in a separate process."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import load_settings
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import collect_from
from tests.connectors.conftest import request_for


def _enter(environ: Mapping[str, str], folder: Path) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.path[:0] = environ["PYTHONPATH"].split(os.pathsep)


def collect(ready: Connection, environ: Mapping[str, str], folder: Path, page: str) -> None:
    """Collect with the settings file, then with the environment alone."""
    _enter(environ, folder)
    answers = []
    for given in (os.environ, {"FAULTLINE_STATUSPAGE__URL": page}):
        settings = load_settings(environ=given)
        assert pickle.loads(pickle.dumps(settings)) == settings
        (connector,) = build_connectors(settings)
        request = request_for(Path(tempfile.mkdtemp()))
        found = asyncio.run(collect_from(connector, request))
        answers.append((connector.name, found.tables["monitors"]["monitor"].to_list()))
    ready.send(answers)


def refusals(ready: Connection, environ: Mapping[str, str], folder: Path, files: list[str]) -> None:
    """What the settings say of each of these files."""
    _enter(environ, folder)
    said = []
    for text in files:
        file = Path("given.toml")
        file.write_text(text)
        try:
            load_settings(file, {})
            said.append("taken")
        except SettingsError as error:
            said.append(str(error))
    ready.send(said)
