"""The notebook's cells run, and the pages that are made from it and from docstrings are fresh."""

from __future__ import annotations

import json

from tests.docs.scripts import script


def test_the_notebook_runs_and_shows_what_its_page_shows() -> None:
    notebook = script("trace_notebook")
    stored = json.loads(notebook.NOTEBOOK.read_text())
    again = notebook.run(stored)
    assert notebook.page(again) == notebook.PAGE.read_text()
    assert notebook.page(stored) == notebook.PAGE.read_text()
    shown = [output for cell in again["cells"] for output in cell.get("outputs", ())]
    assert any("text/html" in output["data"] for output in shown)
    assert any(notebook.VEGA in output["data"] for output in shown)


def test_the_reference_is_what_the_docstrings_say() -> None:
    reference = script("trace_reference")
    assert reference.page() == reference.PAGE.read_text()
