"""Checks names in code: words that name nothing, and functions that branch too much.

`python -m infra.checks.names` prints one line per problem, and exits with 1 if there are any. It
reads every Python file but tests. The words, and what to write instead, are in names.toml.

A visible name that must stay has its reason in names.toml. Functions from before the check are
allowed by the counts at its end. A count that is too high is a problem as well, so it can only
fall: `--update` lowers the counts to what the code needs, and never raises one. `--once` lists the
private functions that their file uses once, `--complex` the functions over complexity 15.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import gc
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infra.checks.definitions import (
    Definition,
    Function,
    definitions,
    module_definition,
    words_of,
)
from infra.checks.product_files import python_files

HOME = Path(__file__).resolve().parents[2]
CONFIGURATION = Path(__file__).with_suffix(".toml")
COMPLEX = 15
TOO_COMPLEX = 20
TOTALS = {
    "over_15": (f"functions over complexity {COMPLEX}", "--complex"),
    "used_once": ("private functions that their file uses once", "--once"),
}
GENERATED = re.compile(r"^\[totals\]$", re.MULTILINE)
# Below that many files, starting a second process takes longer than it saves.
FILES_FOR_A_POOL = 200


@dataclass(frozen=True)
class FileReading:
    """What the check needs of one file; `complex` are the functions over `COMPLEX`."""

    file: str
    visible: tuple[Definition, ...]
    local: tuple[Definition, ...]
    complex: tuple[Function, ...]
    used_once: Mapping[str, int]


@dataclass(frozen=True)
class Rules:
    """names.toml: what to write instead of a word, and what is allowed nevertheless."""

    words: Mapping[str, str]
    terms: Mapping[str, str]
    allowed: Mapping[str, str]
    totals: Mapping[str, int]
    complexity: Mapping[str, int]


def rules_of(configuration: Mapping[str, Any]) -> Rules:
    return Rules(
        words={**configuration["words"], **configuration.get("further_words", {})},
        terms=configuration.get("terms", {}),
        allowed=configuration.get("allowed", {}),
        totals=configuration.get("totals", {}),
        complexity=configuration.get("complexity", {}),
    )


def read_file(file: str, home: Path, words: frozenset[str]) -> FileReading:
    tree = ast.parse((home / file).read_text(encoding="utf-8"), filename=file)
    defined = definitions(tree, words)
    visible = defined.visible
    module = module_definition(file, words)
    if module is not None:
        visible = [module, *visible]
    branching = [function for function in defined.functions if function.complexity > COMPLEX]
    return FileReading(
        file, tuple(visible), tuple(defined.local), tuple(branching), defined.used_once
    )


def read_files(home: Path, words: frozenset[str]) -> list[FileReading]:
    files = python_files(home)
    read = partial(read_file, home=home, words=words)
    if len(files) < FILES_FOR_A_POOL:
        return [read(file) for file in files]
    # Syntax trees have no cycles, and the collector doubles the time that they take.
    with ProcessPoolExecutor(max_workers=2, initializer=gc.disable) as pool:
        return list(pool.map(read, files, chunksize=50))


def problems(readings: Sequence[FileReading], rules: Rules) -> Iterator[str]:
    for reading in readings:
        visible = without_reason(reading.file, reading.visible, rules)
        yield from empty_names(reading.file, [*visible, *reading.local], rules)
        yield from too_complex(reading, rules)
    now = counted(readings, rules)
    for total, (what, option) in TOTALS.items():
        most = rules.totals.get(total, 0)
        if now.totals[total] > most:
            yield (
                f"{now.totals[total]} {what}, at most {most} may be there "
                f"(`python -m infra.checks.names {option}` lists them)"
            )
    yield from not_needed(readings, rules, now)


def without_reason(file: str, visible: Iterable[Definition], rules: Rules) -> list[Definition]:
    """Visible names that hold no term of the field, and for which names.toml gives no reason."""
    names = []
    for definition in visible:
        name = "_".join(words_of(definition.path.rsplit(".", 1)[-1]))
        if any(term in name for term in rules.terms):
            continue
        if f"{file}:{definition.path}" not in rules.allowed:
            names.append(definition)
    return names


def empty_names(file: str, names: Iterable[Definition], rules: Rules) -> Iterator[str]:
    for definition in names:
        name = definition.path.rsplit(".", 1)[-1]
        word = definition.word
        what = "names nothing" if name == word else f"says `{word}`, which names nothing"
        instead = rules.words[word]
        yield f"{file}:{definition.line} {definition.path}: `{name}` {what}; write {instead}"


def too_complex(reading: FileReading, rules: Rules) -> Iterator[str]:
    for function in reading.complex:
        most = rules.complexity.get(f"{reading.file}:{function.path}", TOO_COMPLEX)
        if function.complexity > most:
            where = f"{reading.file}:{function.line} {function.path}"
            yield f"{where}: complexity {function.complexity}, over {most}: split it"


def not_needed(readings: Sequence[FileReading], rules: Rules, now: Rules) -> Iterator[str]:
    """What names.toml allows beyond what the code needs."""
    names = set()
    for reading in readings:
        names |= {f"{reading.file}:{definition.path}" for definition in reading.visible}
    for name in rules.allowed:
        if name not in names:
            yield f"names.toml allows {name}, which is not there: remove it from [allowed]"
    for total, most in rules.totals.items():
        if now.totals.get(total, 0) < most:
            yield f"names.toml: lower the total {total} from {most} to {now.totals.get(total, 0)}"
    for name, most in rules.complexity.items():
        complexity = now.complexity.get(name, 0)
        if complexity < most:
            instead = f"lower it to {complexity}" if complexity else "remove it"
            yield f"names.toml allows {name} a complexity of {most}: {instead}"


def counted(readings: Sequence[FileReading], rules: Rules) -> Rules:
    """The same rules with the counts of the code as it is."""
    complexity: dict[str, int] = {}
    for reading in readings:
        for function in reading.complex:
            name = f"{reading.file}:{function.path}"
            # A property's getter and setter have the same name.
            if function.complexity > max(TOO_COMPLEX, complexity.get(name, 0)):
                complexity[name] = function.complexity
    totals = {
        "over_15": sum(len(reading.complex) for reading in readings),
        "used_once": sum(len(reading.used_once) for reading in readings),
    }
    return dataclasses.replace(rules, totals=totals, complexity=complexity)


def lowered(rules: Rules, now: Rules) -> Rules:
    """The rules with each count that is too high set to the one of the code."""
    totals = {}
    for total, most in rules.totals.items():
        totals[total] = min(most, now.totals.get(total, 0))
    complexity = {}
    for name, most in rules.complexity.items():
        if name in now.complexity:
            complexity[name] = min(most, now.complexity[name])
    return dataclasses.replace(rules, totals=totals, complexity=complexity)


def with_counts(text: str, rules: Rules) -> str:
    """The text of names.toml with other counts; everything above them stays as it is."""
    lines = [GENERATED.split(text)[0] + "[totals]"]
    for total, most in rules.totals.items():
        lines.append(f"{total} = {most}")
    lines += ["", "[complexity]"]
    for name in sorted(rules.complexity):
        lines.append(f'"{name}" = {rules.complexity[name]}')
    return "\n".join(lines) + "\n"


def check(home: Path, configuration: Path, *, update: bool = False, recount: bool = False) -> int:
    """Print the problems of the project at `home`. Returns the exit status."""
    text = configuration.read_text(encoding="utf-8")
    rules = rules_of(tomllib.loads(text))
    readings = read_files(home, frozenset(rules.words))
    if update or recount:
        now = counted(readings, rules)
        rules = now if recount else lowered(rules, now)
        configuration.write_text(with_counts(text, rules), encoding="utf-8")
    status = 0
    for problem in problems(readings, rules):
        print(problem)  # noqa: T201
        status = 1
    return status


def list_used_once(readings: Sequence[FileReading]) -> None:
    for reading in readings:
        for name, line in reading.used_once.items():
            print(f"{reading.file}:{line} {name}")  # noqa: T201


def list_complex(readings: Sequence[FileReading]) -> None:
    for reading in readings:
        for function in reading.complex:
            print(f"{reading.file}:{function.line} {function.path} {function.complexity}")  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.checks.names")
    parser.add_argument("--update", action="store_true", help="lower counts that are too high")
    parser.add_argument("--once", action="store_true", help="list private functions used once")
    parser.add_argument("--complex", action="store_true", help="list functions over complexity 15")
    # Raises counts too, so it is for a change that renames or moves files, and for nothing else.
    parser.add_argument("--recount", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        list_used_once(read_files(HOME, frozenset()))
        return 0
    if options.complex:
        list_complex(read_files(HOME, frozenset()))
        return 0
    return check(HOME, CONFIGURATION, update=options.update, recount=options.recount)


if __name__ == "__main__":
    sys.exit(main())
