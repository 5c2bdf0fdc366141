"""How claims of models fare: honest ones that pass, false ones that are worded as evidence, the
size of what a model is given, and of the code that checks it.

    python -m benchmarks.model_claims

Honest and false claims are those of tests/bot/answer/asserted; lies are made by a rule from every
kept answer. The payload is compared with the JSON document that it replaced, over the same 55
answers; tokens were counted once with OpenAI's o200k_base (156,810 then, 51,920 when it was
replaced), characters are counted here. The check is compared with the closed vocabulary that it
replaced.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from faultline.bot.answer.writer.payload import Redactor, payload
from tests.answers.frozen import answer_files
from tests.bot.answer.asserted.claims_of_models import kept, said, stands, systematic_lies

ROOT = Path(__file__).parents[1]
PAYLOAD_BEFORE = 452_795
"""Characters of the JSON documents of the 55 answers."""
CHECK_BEFORE = 1_537
"""Lines of code of the guard, its word checks and their word list, without blank lines, comments
and docstrings."""
CHECK = (
    "asserted/ground.py",
    "asserted/relations.py",
    "asserted/measurements.py",
    "asserted/causes.py",
    "asserted/quotations.py",
    "writer/guard.py",
)


def main() -> None:
    """Print the figures."""
    honest = kept("honest")
    first = sum(stands(claim, claim["case"]) for claim in honest)
    after = sum(
        stands(claim, claim["case"]) or stands(claim.get("repaired", claim), claim["case"])
        for claim in honest
    )
    print(f"honest claims: {first} of {len(honest)} stand at once, {after} after one repair")
    false = [claim for claim in kept("false") if claim["parts"]]
    worded = [
        claim
        for claim in false
        if said(({"parts": claim["parts"]}), claim["case"], claim.get("question", "")).claims
    ]
    lies = [claim for claim in worded if claim.get("becomes") != "true"]
    print(
        f"false and hostile claims: {len(false) - len(worded)} of {len(false)} are refused, of "
        f"{len(worded) - len(lies)} a true sentence is worded, of {len(lies)} a false one"
    )
    tried: Counter[bool] = Counter()
    for case, part in systematic_lies():
        tried[bool(said({"parts": [part]}, case).claims)] += 1
    print(f"lies made by a rule: {tried[True]} of {tried.total()} are worded")
    size = 0
    for answer in answer_files():
        decided = answer.decided
        size += len(payload(decided.diagnosis, decided.alert, decided.gaps, Redactor()))
    print(f"payload: {size:,} characters, {size / PAYLOAD_BEFORE:.2f} of before")
    lines = sum(_code_lines(ROOT / "bot" / "answer" / name) for name in CHECK)
    print(f"checks and words of claims: {lines} lines, {lines / CHECK_BEFORE:.2f} of before")


def _code_lines(path: Path) -> int:
    """Lines that hold code."""
    text = path.read_text("utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


if __name__ == "__main__":
    main()
