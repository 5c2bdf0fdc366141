"""Which mutations are made of a piece of source, kind by kind."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation, StaleMutationError
from benchmarks.mutants.mutator import mutations_of
from benchmarks.mutants.signatures import Signatures
from benchmarks.mutants.source_text import SourceText


def mutations(source: str) -> list[Mutation]:
    return mutations_of(SourceText("shop/orders.py", textwrap.dedent(source).encode()))


def lines_after(body: str, kind: str, head: str = "def run(self, a, b, c):") -> list[str]:
    """What the mutations of one kind make of the body of a function."""
    source = f"{head}\n{textwrap.indent(body, '    ')}\n"
    return [mutation.after for mutation in mutations(source) if mutation.kind == kind]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "a <= b"),
        ("a <= b", "a < b"),
        ("a > b", "a >= b"),
        ("a >= b", "a > b"),
        ("a == b", "a != b"),
        ("a != b", "a == b"),
        ("a in b", "a not in b"),
        ("a not  in b", "a in b"),
        ("a is b", "a is not b"),
        ("(a + c) is not b", "(a + c) is b"),
    ],
)
def test_a_comparison_is_swapped(before: str, after: str) -> None:
    assert lines_after(f"return {before}", "comparison") == [f"return {after}"]


def test_each_operator_of_a_chain_is_swapped_alone() -> None:
    after = ["return a <= b <= c", "return a < b < c"]
    assert lines_after("return a < b <= c", "comparison") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < 3", ["a < 4", "a < 2"]),
        ("a < 0", ["a < 1"]),
        ("a < -1", ["a < -2", "a < -0"]),
        ("a < 0.5", ["a < 0.75"]),
        ("a < 0.0", ["a < 1.0"]),
        ("a[:2]", ["a[:3]", "a[:1]"]),
        ("a + 3", []),
        ("a is True", []),
    ],
)
def test_a_constant_on_a_boundary_is_moved(before: str, after: list[str]) -> None:
    assert sorted(lines_after(f"return {before}", "boundary")) == sorted(
        f"return {line}" for line in after
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a + b", ["return a - b"]),
        ("return a - b", ["return a + b"]),
        ("return -a", ["return a"]),
        ("a += b", ["a -= b"]),
        ('return "total " + a', []),
        ("return [a] + b", []),
    ],
)
def test_a_sign_is_turned(before: str, after: list[str]) -> None:
    assert lines_after(before, "sign") == after


def test_an_await_is_dropped_only_where_nobody_takes_the_value() -> None:
    body = "await a.close()\nreturn await b"
    assert lines_after(body, "await", head="async def run(a, b):") == ["a.close()"]


def test_neighbouring_arguments_are_swapped() -> None:
    assert lines_after("return f(a, b, *c)", "arguments") == ["return f(b, a, *c)"]
    assert lines_after("return f(a, a)", "arguments") == []
    assert lines_after("return isinstance(a, b)", "arguments") == []


def test_a_statement_with_an_effect_is_removed() -> None:
    body = "a.append(b)\na.total = b\na[b] = c\nc = 1\nc += 1"
    removed = [m.before for m in mutations(f"def run(a, b):\n{textwrap.indent(body, '    ')}\n")]
    assert [line for line in body.splitlines() if line in removed] == [
        "a.append(b)",
        "a.total = b",
        "a[b] = c",
        "c += 1",
    ]
    assert set(lines_after(body, "statement")) == {"pass"}


def test_nothing_is_returned_where_the_annotation_allows_it() -> None:
    head = "def run(a) -> int | None:"
    assert lines_after("return a", "return", head=head) == ["return None"]
    assert lines_after("return None", "return", head=head) == []
    assert lines_after("return a", "return", head="def run(a) -> int:") == []


def test_a_connective_is_swapped() -> None:
    assert lines_after("return a and b or c", "connective") == [
        "return a or b or c",
        "return a and b and c",
    ]


def test_a_condition_is_negated() -> None:
    assert lines_after("if a:\n    return b", "condition") == ["if (not (a)):"]
    assert lines_after("return [x for x in a if x.ok]", "condition") == [
        "return [x for x in a if (not (x.ok))]"
    ]
    # The kinds for comparisons and for `not` turn these round.
    assert lines_after("if a == b or not c:\n    return b", "condition") != []
    assert lines_after("if a == b:\n    return b", "condition") == []
    assert lines_after("if not a:\n    return b", "condition") == []


def test_not_is_removed() -> None:
    assert lines_after("return not a", "not") == ["return (a)"]


def test_the_least_becomes_the_most() -> None:
    assert lines_after("return max(a, b)", "extreme") == ["return min(a, b)"]
    assert lines_after("return min(a, b)", "extreme") == ["return max(a, b)"]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("sorted(a, key=b, reverse=True)", ["sorted(a, reverse=True)", "sorted(a, key=b)"]),
        ("ship(order=a, express=b)", ["ship(order=a)"]),
        ("Order(name=a, gift=b)", ["Order(name=a)"]),
        ("price(a, discount=b)", ["price(a)"]),
        ("unknown(a, key=b)", []),
    ],
)
def test_a_keyword_argument_with_a_default_is_dropped(
    tmp_path: Path, call: str, after: list[str]
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/prices.py").write_text("def price(item, *, discount=0): ...\n")
    source = (
        "from shop.prices import price\n"
        "class Order:\n    name: str\n    gift: bool = False\n"
        "def ship(order, express=False): ...\n"
        f"def run(a, b):\n    return {call}\n"
    )
    text = SourceText("shop/orders.py", source.encode())
    signatures = Signatures(ProjectModules(tmp_path))
    kept = [m.after for m in mutations_of(text, signatures) if m.kind == "keyword"]
    assert kept == [f"return {line}" for line in after]


@pytest.mark.parametrize(
    "source",
    [
        'def run():\n    """Half of it, or less: 1 < 2."""\n',
        'def run(a):\n    log.warning("%s of %s", a, a + 1)\n',
        'def run(a):\n    raise ValueError("more than " + str(a - 1))\n',
        "def run(a):\n    assert a > 1, a\n",
        'if __name__ == "__main__":\n    main(1 + 2)\n',
        "def run():\n    if TYPE_CHECKING:\n        a.b = 1 + 2\n",
        "def run(a: X[1 + 2] = 1 - 2) -> Y[1:2]: ...\n",
        "@given(1 + 2)\ndef run(): ...\n",
        "@overload\ndef run(a):\n    a.b()\n",
        'def run(a):\n    return f"{a + 1} left"\n',
        "LIMIT = 3 + 4\n",
    ],
)
def test_what_says_nothing_about_behaviour_is_left_alone(source: str) -> None:
    assert mutations(source) == []


def test_a_mutation_is_made_in_its_place_among_characters_of_several_bytes() -> None:
    source = 'def run(a, b):\n    return ("é", a < b)\n'
    (swapped,) = [m for m in mutations(source) if m.kind == "comparison"]
    assert swapped.place == "shop/orders.py:2:comparison"
    mutated = swapped.applied(source.encode()).decode()
    assert mutated == 'def run(a, b):\n    return ("é", a <= b)\n'
    ast.parse(mutated)


def test_a_mutation_of_another_source_is_refused() -> None:
    (swapped,) = mutations("def run(a, b):\n    return a < b\n")
    with pytest.raises(StaleMutationError):
        swapped.applied(b"def go(a, b):\n    return a < b\n")
