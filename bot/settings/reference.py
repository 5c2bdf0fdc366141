"""Writes docs/configuration.md from the settings themselves: `python -m bot.settings.reference`."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bot.settings import (
    DEFAULT_FILE,
    NAMED_TABLES,
    Settings,
    is_secret,
    secret_variable,
    sections_in_order,
)

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

HEAD = f"""# Configuration

One file, `{DEFAULT_FILE}` in the working directory or the one named by `--config` or `FAULTLINE_CONFIG`. Every key
outside of `services`, `jobs` and `teams`, but for lists of tables and tables within a section, can also be set as
`FAULTLINE_<SECTION>__<KEY>` in the environment, which wins. Secrets are read from the environment only; one in the
file stops the start. Without any file the bot runs on loopback with embedded databases.

```toml
[server]
public_url = "https://faultline.example.com"

[slack]
channel = "C0123456789"

[prometheus]
url = "http://prometheus.monitoring:9090"

[services.checkout]
aliases = ["checkout-api"]
depends_on = ["payments", "cart"]
```

This page is written from the settings by `python -m bot.settings.reference`.
"""  # noqa: E501


def page() -> str:
    """The whole page as Markdown."""
    sections = [HEAD]
    for name, field in sections_in_order(Settings):
        section = NAMED_TABLES.get(name, field.annotation)
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        title = f"{name}.NAME" if name in NAMED_TABLES else name
        meanings = _docstrings_of_fields(section)
        rows = [
            _row(name, key, section, info, meanings.get(key, ""))
            for key, info in section.model_fields.items()
        ]
        # A docstring that is wrapped in the source is one paragraph on the page.
        about = " ".join((section.__doc__ or "").split())
        head = f"\n## [{title}]\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n"
        sections.append(head + "\n".join(rows) + "\n")
    return "".join(sections)


def _docstrings_of_fields(section: type[BaseModel]) -> dict[str, str]:
    """What stands below each field in the source, a section's parents included."""
    found: dict[str, str] = {}
    for model in reversed(section.__mro__):
        if issubclass(model, BaseModel) and model is not BaseModel:
            source = textwrap.dedent(inspect.getsource(model))
            found |= _docstrings_in(ast.parse(source).body[0])
    return found


def _docstrings_in(node: ast.stmt) -> dict[str, str]:
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in pairwise(node.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _row(section: str, key: str, model: type[BaseModel], info: FieldInfo, meaning: str) -> str:
    if section not in NAMED_TABLES and is_secret(model, key):
        key = f"`{secret_variable(section, key)}`"
        meaning = meaning.removeprefix("Secret.").strip() or "Secret."
    else:
        key = f"`{key}`"
    return f"| {key} | {_default(info.default)} | {meaning} |"


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or value == ():
        return ""
    return f"`{value if isinstance(value, Path) else json.dumps(value)}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
