"""Runs docs/trace-engine/notebook.ipynb, keeps what its cells show, and writes it as a page, too.

python docs/trace_notebook.py
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

NOTEBOOK = HOME / "docs" / "trace-engine" / "notebook.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")
VEGA = f"application/vnd.vegalite.v{alt.SCHEMA_VERSION.lstrip('v').partition('.')[0]}+json"

Cell = dict[str, Any]


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the output of each cell, run one after the other in one namespace."""
    namespace: dict[str, Any] = {}
    with _in_home(), pl.Config(tbl_rows=8, tbl_cols=8, tbl_width_chars=100, fmt_str_lengths=40):
        cells = [_run_cell(cell, namespace, number) for number, cell in _numbered(notebook)]
    return notebook | {"cells": cells}


def page(notebook: dict[str, Any]) -> str:
    """The notebook as a page: text, code, and what the code shows as text."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            shown = "".join(output["data"]["text/plain"])
            parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n"


def _numbered(notebook: dict[str, Any]) -> Iterator[tuple[int, Cell]]:
    number = 0
    for cell in notebook["cells"]:
        number += cell["cell_type"] == "code"
        yield number, cell


def _run_cell(cell: Cell, namespace: dict[str, Any], number: int) -> Cell:
    if cell["cell_type"] != "code":
        return cell
    tree = ast.parse("".join(cell["source"]))
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    # The cells are this repository's own code.
    exec(compile(tree, f"cell {number}", "exec"), namespace)  # noqa: S102
    shown = None
    if last is not None:
        shown = eval(compile(last, f"cell {number}", "eval"), namespace)  # noqa: S307
    outputs = [] if shown is None else [_output(shown, number)]
    return cell | {"execution_count": number, "outputs": outputs}


def _output(shown: object, number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": str(shown).splitlines(keepends=True)}
    if isinstance(shown, alt.Chart):
        kind = shown.mark if isinstance(shown.mark, str) else shown.mark.type
        data = {VEGA: shown.to_dict(), "text/plain": [f"A chart: {kind}."]}
    elif hasattr(shown, "_repr_html_"):
        data["text/html"] = shown._repr_html_().splitlines(keepends=True)
    return {
        "output_type": "execute_result",
        "execution_count": number,
        "metadata": {},
        "data": data,
    }


@contextmanager
def _in_home() -> Iterator[None]:
    before = Path.cwd()
    os.chdir(HOME)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    done = run(json.loads(NOTEBOOK.read_text()))
    NOTEBOOK.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(done), encoding="utf-8")
