"""How much of what is secret is found, and how much of what is not is lost.

    python -m benchmarks.redaction [--logs FOLDER] [--forms FILE] [--gitleaks FILE] [--missed]
        [--time] [--pairs]

Two corpora stand beside the tests: forms of secrets in context, one JSON line each (`text`,
`secrets`, `notation`, `source`), and honest lines that look like secrets. `--logs` adds honest text
of your own: every text column of every Parquet file below a folder, and every file of lines. With
detect-secrets installed (`uv run --with detect-secrets python -m benchmarks.redaction`) its figures
stand beside ours, and with `--gitleaks` those of gitleaks' rules, from its config/gitleaks.toml. Of
`--logs` the others get about LINES_COMPARED texts, evenly spread; ours are counted on these too.
`--pairs` looks for texts that take more than linear time: every ordered pair of the pieces that our
patterns are made of, each repeated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.gitleaks_rules import gitleaks_mask
from faultline.analysis.secrets import named_values
from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.commands import COMMANDS
from faultline.analysis.secrets.patterns import SECRETS
from faultline.analysis.secrets.redaction import masked

TESTS = Path(__file__).parents[1] / "tests/analysis/secrets"
FORMS = TESTS / "secret_forms.jsonl"
HELD_OUT = (TESTS / "held_out_forms.jsonl", TESTS / "later_forms.jsonl")
"""Each written after the rules, and mended for once its share was known: no estimate any more."""
HONEST = TESTS / "honest_lines.txt"
JOIN = "{+}"
"""Stands inside tokens that a scanner of pushed commits would take for live ones."""
PIECE = 6
"""A secret is found when no six of its characters in a row are left."""
LINES_TIMED = 20_000
LINES_COMPARED = 20_000
"""detect-secrets takes a file for each text, some milliseconds."""
SUFFIXES = (".log", ".txt", ".jsonl", ".json")

Mask = Callable[[str], str]


@dataclass(frozen=True)
class Form:
    """A text and the secrets in it."""

    text: str
    secrets: tuple[str, ...]
    notation: str


def read_forms(path: Path = FORMS) -> list[Form]:
    """The forms of secrets of a file of JSON lines."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Form(
            row["text"].replace(JOIN, ""),
            tuple(secret.replace(JOIN, "") for secret in row["secrets"]),
            row["notation"],
        )
        for row in rows
    ]


def honest_lines(path: Path = HONEST) -> list[str]:
    """The honest lines of a file."""
    return path.read_text().splitlines()


def leaks(form: Form, shown: str) -> bool:
    """Whether a piece of a secret is left in what is shown of the text."""
    around = form.text
    for secret in form.secrets:
        around = around.replace(secret, "\0")
    for secret in form.secrets:
        size = min(PIECE, len(secret))
        for start in range(len(secret) - size + 1):
            piece = secret[start : start + size]
            if piece in shown and piece not in around:
                return True
    return False


def lost_words(text: str, shown: str) -> list[str]:
    """The words of a text that do not stand in what is shown of it."""
    return list((Counter(text.split()) - Counter(shown.split())).elements())


def texts_below(folder: Path) -> Iterable[str]:
    """Every different text of the Parquet files and files of lines below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            for name in frame.columns:
                if frame.schema[name] == pl.String:
                    yield from frame[name].drop_nulls().unique(maintain_order=True).to_list()
        elif path.suffix in SUFFIXES and path.is_file():
            yield from path.read_text(errors="replace").splitlines()


def detect_secrets() -> Mask | None:
    """What detect-secrets leaves of a text with its default plug-ins; None where it is not
    installed."""
    try:
        from detect_secrets import SecretsCollection  # type: ignore[import-not-found]
        from detect_secrets.settings import default_settings  # type: ignore[import-not-found]
    except ImportError:
        return None

    def shown(text: str) -> str:
        # By way of a file: for single lines it reports words whatever their entropy.
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, default_settings():
            file.write(text + "\n")
            file.flush()
            collection = SecretsCollection()
            collection.scan_file(file.name)
            for _, secret in collection:
                if secret.secret_value:
                    text = text.replace(secret.secret_value, "[SECRET]")
        return text

    return shown


def report_forms(name: str, forms: Sequence[Form], mask: Mask, *, missed: bool) -> None:
    """Print how many forms are found, by notation where not all are."""
    total: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for form in forms:
        total[form.notation] += 1
        if leaks(form, mask(form.text)):
            if missed:
                print(f"  missed ({form.notation}): {form.text!r} -> {mask(form.text)!r}")
        else:
            hits[form.notation] += 1
    share = hits.total() / total.total()
    print(f"{name}: {hits.total()} of {total.total()} forms found ({share:.1%})")
    short = [f"{n} {hits[n]}/{total[n]}" for n in total if hits[n] < total[n]]
    if short:
        print("  not all: " + ", ".join(short))


def report_honest(name: str, texts: Sequence[str], mask: Mask, *, missed: bool) -> None:
    """Print how many honest words are lost."""
    words = 0
    lost: Counter[str] = Counter()
    column = pl.Series(texts, dtype=pl.String)
    all_shown = mask_column(column).to_list() if mask is masked else [mask(t) for t in texts]
    for text, shown in zip(texts, all_shown, strict=True):
        words += len(text.split())
        if shown != text:
            gone = lost_words(text, shown)
            lost.update(gone)
            if missed:
                print(f"  lost: {gone} of {text[:300]!r}")
    rate = 10_000 * lost.total() / max(1, words)
    print(f"{name}: {lost.total()} of {words} honest words redacted ({rate:.2f} in 10,000)")


def report_time(texts: Sequence[str]) -> None:
    """Print the CPU time per line, of a column at once and of texts one by one."""
    column = pl.Series(texts[:LINES_TIMED], dtype=pl.String)
    for name, run in (
        ("in a column", lambda: mask_column(column)),
        ("one by one", lambda: [masked(text) for text in column]),
    ):
        began = time.process_time()
        run()
        spent = (time.process_time() - began) / max(1, len(column))
        print(f"{name}: {spent * 1e6:.1f} µs of CPU a line ({len(column)} lines)")


def pieces() -> list[str]:
    """What the patterns are made of: the words and signs in their sources, and what makes them
    try."""
    sources = [pattern.pattern for _, pattern in (*SECRETS, *COMMANDS)]
    sources += [
        pattern.pattern
        for pattern in vars(named_values).values()
        if isinstance(pattern, re.Pattern)
    ]
    matches = {word for source in sources for word in re.findall(r"[A-Za-z][\w/\-]{2,20}", source)}
    matches |= {sign * times for sign in " =:\"'`<>()[]{}\\/|,;-.&%$@~?!\n\t" for times in (1, 3)}
    matches |= {
        "aA1",
        "password=",
        "--password ",
        "curl -u a:",
        "zip -P",
        "/reset/aA1",
        "? token\n: ",
    }
    return sorted(matches)


def slowest_pairs(chosen: Iterable[tuple[str, str]], length: int) -> list[tuple[float, str, str]]:
    """CPU seconds of each pair of pieces, the slowest first: the first piece repeated, and then the
    second, `length` characters of each."""
    spent = []
    for piece, other in chosen:
        text = piece * (length // len(piece)) + other * (length // len(other))
        began = time.process_time()
        masked(text)
        spent.append((time.process_time() - began, piece, other))
    return sorted(spent, reverse=True)


def report_pairs(length: int = 2_000, count: int = 40) -> None:
    """Print how time grows with the length for the slowest pairs of all."""
    pairs = list(itertools.product(pieces(), repeat=2))
    slow = slowest_pairs(pairs, length)[:count]
    growths = []
    for spent, piece, other in slow:
        (longer, _, _), *_ = slowest_pairs([(piece, other)], 8 * length)
        growths.append((longer / max(spent, 1e-4), longer, piece, other))
    growth, longer, piece, other = max(growths)
    print(
        f"{len(pairs)} pairs: slowest {slow[0][0] * 1e3:.0f} ms for {2 * length} characters; "
        f"of the {count} slowest 8 times the text takes at most {growth:.1f} times as long "
        f"({longer * 1e3:.0f} ms, {piece!r} and {other!r})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", type=Path, default=FORMS)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--gitleaks", type=Path, help="gitleaks' config/gitleaks.toml")
    parser.add_argument("--missed", action="store_true", help="print each miss and each loss")
    parser.add_argument("--time", action="store_true", help="print the CPU time per line")
    parser.add_argument("--pairs", action="store_true", help="look for slow texts, minutes")
    args = parser.parse_args()
    if args.pairs:
        report_pairs()
        return
    forms = read_forms(args.forms)
    logs = list(texts_below(args.logs)) if args.logs else []
    masks = {
        "faultline": masked,
        "detect-secrets": detect_secrets(),
        "gitleaks": gitleaks_mask(args.gitleaks) if args.gitleaks else None,
    }
    for name, mask in masks.items():
        if mask is None:
            print(f"{name}: not compared (see the head of this file)")
            continue
        missed = args.missed and mask is masked
        report_forms(name, forms, mask, missed=missed)
        report_honest(f"{name}, hard cases", honest_lines(), mask, missed=missed)
        if logs and mask is masked:
            report_honest(f"{name}, {args.logs.name}", logs, mask, missed=missed)
        if logs:
            few = logs[:: max(1, len(logs) // LINES_COMPARED)]
            report_honest(f"{name}, {len(few)} of these texts", few, mask, missed=False)
    if args.time:
        report_time(logs or honest_lines())


if __name__ == "__main__":
    main()
