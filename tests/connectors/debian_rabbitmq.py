"""RabbitMQ of Debian with one of its plugins, unpacked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from faultline.loopback.bot_process import free_port
from tests.connectors.real_servers import Programs
from tests.debian_tools import debian_root

ERLANG = (
    "erlang-base", "erlang-asn1", "erlang-crypto", "erlang-eldap", "erlang-inets", "erlang-mnesia",
    "erlang-os-mon", "erlang-parsetools", "erlang-public-key", "erlang-runtime-tools",
    "erlang-ssl", "erlang-syntax-tools", "erlang-tools", "erlang-xmerl",
)  # fmt: skip
NODE = "faultline@localhost"
CALM = ("+S", "1", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none")
"""One scheduler, which sleeps when it has nothing to do."""
PLUGINS = ("rabbitmq_prelaunch", "rabbitmq_management_agent", "rabbitmq_web_dispatch")
"""What the plugins need."""


def start_broker(running: Programs, plugin: str, settings: str, url: str, trouble: str) -> None:
    """One with this plugin and these lines of its settings; `url` is where the plugin answers. Then
    it evaluates `trouble`, an Erlang expression that ends with `told`."""
    root = debian_root("rabbitmq-server", *ERLANG)
    names, nodes = free_port(), free_port()
    _configure(running.folder, plugin, settings)
    [programs_of_erlang] = root.glob("usr/lib/erlang/erts-*/bin")
    [home] = root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*")
    # Erlang would start it as a daemon that outlives the test.
    running.start(programs_of_erlang / "epmd", "-port", str(names), "-address", "127.0.0.1")
    environment = {
        **_erlang(programs_of_erlang, running.folder, names),
        **_places(home, running.folder, nodes, plugin),
    }
    # As its script does, which looks for Erlang where only an installation has it.
    running.start(
        programs_of_erlang / "erlexec",
        *("-noinput", "-boot", "start_sasl", "-s", "rabbit", "boot", *CALM),
        *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
        *("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"),
        env=environment,
    )
    running.until_answers(url)
    cookie = (running.folder / ".erlang.cookie").read_text()
    call = [str(programs_of_erlang / "erl_call"), "-address", str(nodes), "-c", cookie, "-e"]
    told = subprocess.run(
        call, check=False, input=trouble, text=True, capture_output=True, timeout=30
    )
    assert "told" in told.stdout, told


def _erlang(programs_of_erlang: Path, folder: Path, names: int) -> Mapping[str, str]:
    return {
        "ROOTDIR": str(programs_of_erlang.parents[1]),
        "BINDIR": str(programs_of_erlang),
        "EMU": "beam",
        "PROGNAME": "erl",
        "HOME": str(folder),
        "PATH": f"{programs_of_erlang}:{os.environ['PATH']}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
    }


def _places(home: Path, folder: Path, nodes: int, plugin: str) -> Mapping[str, str]:
    return {
        "ERL_LIBS": str(_needed(home / "plugins", folder / "libraries", plugin)),
        "RABBITMQ_HOME": str(home),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "features"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": NODE,
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


def _needed(plugins: Path, libraries: Path, plugin: str) -> Path:
    """Links to the libraries of RabbitMQ and to the plugins that are enabled: each module is looked
    for in all of them, which is a quarter of its start."""
    libraries.mkdir()
    for one in plugins.glob("*-*"):
        name = one.name.rpartition("-")[0]
        if not name.startswith("rabbitmq_") or name in (*PLUGINS, plugin):
            (libraries / one.name).symlink_to(one)
    return libraries


def _configure(folder: Path, plugin: str, settings: str) -> None:
    (folder / "plugins").write_text(f"[{plugin}].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{free_port()}\ncollect_statistics_interval = 1000\n{settings}"
    )
