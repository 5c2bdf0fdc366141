"""The whole loop of a model, with tools, on labelled cases, played by a scripted model.

    python -m benchmarks.scripted_models CASES [--model expert]

Prints what `faultline eval --model` prints: right answers before and after, verdicts that agreed,
led and dissented, claims refused and accepted. The models are those of
tests/evaluation/scripted_models.py; `expert` reads who calls whom and dissents by a fixed strategy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from faultline.bot.settings import Settings
from faultline.bot.settings.investigation import ModelSettings
from faultline.evaluation.model_run import run_model
from tests.bot.answer.writer.openai_server import serving
from tests.evaluation.scripted_models import SCRIPTED


def main() -> None:
    """Play the model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("--model", choices=sorted(SCRIPTED), default="expert")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with serving(SCRIPTED[options.model]) as server:
        model = ModelSettings(name=options.model, base_url=server.url)
        run_model(options.cases, Settings(model=model), json_=options.json)


if __name__ == "__main__":
    main()
