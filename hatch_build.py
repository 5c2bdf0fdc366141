"""Compiles the C sources of the trace engine into one shared library while a wheel is built, also
an editable one.

The compiler is Zig's C compiler from PyPI (`ziglang`, a build requirement), so nobody needs to
install one. Where it cannot run, the wheel is built without the library and says so. The
readers then take their slower Python lane.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = "analysis/traces/native"
FOLDER = "faultline/analysis/traces/native"
"""Where the library lies in a wheel."""
EDITABLE_FOLDER = "_faultline_native"
"""Where it lies in site-packages beside an editable install. Not beside the sources: an editable
wheel may come out of a cache, and the library has to come with it."""
GLIBC = "2.17"
FLAGS = (
    "-shared",
    "-O3",
    "-fPIC",
    "-std=c99",
    "-fno-sanitize=all",
    "-fvisibility=hidden",
    "-g0",
    "-s",
    "-Wall",
    "-Wextra",
    "-Werror",
)
COMPILE_SECONDS = 300


class NativeLibrary(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled library to the wheel and the platform to its name."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together."""
        self._folder = Path(tempfile.mkdtemp(prefix="faultline-native-"))
        native_target = target()
        if self.target_name != "wheel" or native_target is None:
            return
        triple, tag, suffix = native_target
        library = self._folder / f"traces{suffix}"
        try:
            compile_library(Path(self.root), library, triple, self._folder)
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", None) or error
            self.app.display_warning(
                f"the trace library was not built, reading will be slower: {output}"
            )
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        if version == "editable":
            included, folder = "force_include_editable", EDITABLE_FOLDER
        else:
            included, folder = "force_include", FOLDER
        build_data.setdefault(included, {})[str(library)] = f"{folder}/{library.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        shutil.rmtree(self._folder, ignore_errors=True)


def target() -> tuple[str, str, str] | None:
    """Zig's target, the wheel's platform tag and the library's suffix for this machine; None where
    unnative_target."""
    machine = platform.machine().lower()
    cpu = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if cpu not in ("x86_64", "aarch64"):
        return None
    if sys.platform == "linux":
        if "musl" in (sysconfig.get_config_var("SOABI") or "") or platform.libc_ver()[0] != "glibc":
            return f"{cpu}-linux-musl", f"musllinux_1_2_{cpu}", ".so"
        return f"{cpu}-linux-gnu.{GLIBC}", f"manylinux_{GLIBC.replace('.', '_')}_{cpu}", ".so"
    if sys.platform == "darwin":
        return f"{cpu}-macos.11.0", f"macosx_11_0_{'arm64' if cpu == 'aarch64' else cpu}", ".dylib"
    if sys.platform == "win32":
        return f"{cpu}-windows-gnu", "win_arm64" if cpu == "aarch64" else "win_amd64", ".dll"
    return None


def compile_library(
    root: Path,
    library: Path,
    triple: str,
    caches: Path,
    flags: tuple[str, ...] = FLAGS,
    compiler: str = sys.executable,
) -> None:
    """Compile all C sources into `library`. Raises CalledProcessError with the compiler's words in
    `stderr`."""
    sources = sorted(str(file) for file in (root / SOURCES).glob("*.c"))
    subprocess.run(
        [compiler, "-m", "ziglang", "cc", *flags, "-target", triple, *sources, "-o", str(library)],
        check=True,
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        env={
            **os.environ,
            "ZIG_GLOBAL_CACHE_DIR": str(caches / "zig"),
            "ZIG_LOCAL_CACHE_DIR": str(caches / "zig"),
        },
    )
