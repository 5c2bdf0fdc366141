"""The options that name sources on the spot, which several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _url(vendor: str, port: int) -> Any:
    """An option for the address of a source."""
    sentence = f"Address of {vendor}, such as http://localhost:{port}."
    return typer.Option(f"--{vendor.lower()}", metavar="URL", help=sentence)


Prometheus = Annotated[str | None, _url("Prometheus", 9090)]
Loki = Annotated[str | None, _url("Loki", 3100)]
Tempo = Annotated[str | None, _url("Tempo", 3200)]
Jaeger = Annotated[str | None, _url("Jaeger", 16686)]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig, not the current."),
]
NoKubernetes = Annotated[bool, typer.Option("--no-kubernetes", help="Do not use the kubeconfig.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file. Default: faultline.toml in the working directory."
    ),
]


def urls_by_connector(**urls: str | None) -> dict[str, str]:
    """The addresses that were given, by connector."""
    return {name: url for name, url in urls.items() if url}
