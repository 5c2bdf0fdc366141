"""Unpacks Debian's packages for the image: `root_files.py FOLDER`, as root, after `apt-get update`.

The image holds what Python needs, and neither a shell nor a package manager. So these packages are
unpacked as they are, without their scripts, the way distroless images are made. What Debian tells
of each is kept in /var/lib/dpkg/status.d, where scanners look for it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = "python3.13"
PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.13-minimal",
    "libpython3.13-stdlib",
    "libreadline8t64",
    "libsqlite3-0",
    "libssl3t64",
    "libstdc++6",
    "libtinfo6",
    "libuuid1",
    "libzstd1",
    "netbase",
    "python3.13-minimal",
    "tini",
    "tzdata",
    "zlib1g",
)
"""What `ldd` finds for Python, its standard library and the wheels of `uv.lock`."""
UNUSED = (
    "usr/share/doc-base",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/lib/*-linux-gnu/gconv",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/python3*/test",
    "usr/lib/python3*/turtledemo",
)
"""Licences in usr/share/doc stay."""
IDENTITY = "10001:10001"
PEOPLE = {"passwd": "root:x:0:0::/:\nfaultline:x:10001:10001::/tmp:\n", "group": "root:x:0:\n"}
WRITABLE = (("state", 0o700), ("config", 0o700), ("tmp", 0o1777))


def unpack(root: Path) -> None:
    """Fetch and unpack all of them. Raises CalledProcessError."""
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=scratch, check=True)
        for file in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(file), str(root)], check=True)
            control = subprocess.run(["dpkg-deb", "-f", str(file)], capture_output=True, check=True)
            (status / file.name.partition("_")[0]).write_bytes(control.stdout)


def finish(root: Path) -> None:
    """What the packages' scripts would have done, and what the bot needs."""
    for pattern in UNUSED:
        for place in root.glob(pattern):
            shutil.rmtree(place)
    # Put together by the package's script from single files, which it replaces.
    shutil.rmtree(root / "usr/share/ca-certificates")
    bundle = Path("etc/ssl/certs/ca-certificates.crt")
    (root / bundle).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path("/") / bundle, root / bundle)
    # Where OpenSSL looks; these links are the package openssl's, which brings a program.
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to(Path("/") / bundle)
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
    for name, text in PEOPLE.items():
        (root / "etc" / name).write_text(text)
    for name, mode in WRITABLE:
        folder = root / name
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
        if name != "tmp":
            shutil.chown(folder, *map(int, IDENTITY.split(":")))
    compiling = ["chroot", str(root), f"/usr/bin/{PYTHON}", "-m", "compileall", "-q"]
    subprocess.run([*compiling, f"/usr/lib/{PYTHON}"], check=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    unpack(folder)
    finish(folder)
