"""Schemas of the AWS provider, read from the classes that cdktn-provider-aws (PyPI) generated from
them.

The classes are not imported: their text is parsed, for the types that the modules use, and kept as
JSON. What it gives is `{"resource": {type: block}, "data": {...}, "ephemeral": {...}}`. A block is
`{"attributes": {name: {"type", "required", "computed", "settable"}}, "blocks": {name: {"least",
"most", "single", "block"}}}`; `most` 0 means any number, and types are those of Terraform's JSON
(`"string"`, `["list", "string"]`, `"dynamic"`).
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

Block = dict[str, Any]

META = {
    "connection",
    "count",
    "depends_on",
    "for_each",
    "lifecycle",
    "provider",
    "provisioners",
    "scope",
    "scope_",
    "id_",
}
"""Arguments of the class that are none of the resource's. (`scope` of a resource is `scope`, its
own is `scope_`.)"""
OFTEN_COMPUTED = {"id", "arn", "name", "port", "tags_all"}
"""Arguments that AWS chooses where they are not given. The classes do not tell which those are;
mocks fill these in."""
_PLAIN = {"builtins.str": "string", "jsii.Number": "number", "builtins.bool": "bool"}
_DOCUMENTED = re.compile(r":param (\w+): (?:(\w+) block\.)?")
_REAL_NAME = re.compile(r"#(\w+) \w+#\1")
_USED = re.compile(r'^\s*(resource|data|ephemeral)\s+"(aws_\w+)"', re.MULTILINE)


def used_types(modules: Path) -> set[tuple[str, str]]:
    """Kinds and types of all resources, data sources and ephemeral resources below a folder."""
    return {
        match
        for file in modules.rglob("*.tf")
        for match in _USED.findall(file.read_text(encoding="utf-8"))
    }


def read_schemas(wheel: Path, types: set[tuple[str, str]]) -> dict[str, dict[str, Block]]:
    """The schemas of these types; one that the provider does not have is left out, and Terraform
    says so."""
    blocks: dict[str, dict[str, Block]] = {"resource": {}, "data": {}, "ephemeral": {}}
    with zipfile.ZipFile(wheel) as opened:
        for kind, name in sorted(types):
            if kind == "ephemeral":
                if name in EPHEMERAL:
                    blocks[kind][name] = EPHEMERAL[name]
                continue
            module = name.removeprefix("aws_") if kind == "resource" else "data_" + name
            try:
                text = opened.read(f"cdktn_provider_aws/{module}/__init__.py").decode()
            except KeyError:
                continue
            blocks[kind][name] = _Module(text).root(computed_by_aws=kind == "data")
    if "aws_wafv2_web_acl" in blocks["resource"]:
        _add_statements(blocks["resource"]["aws_wafv2_web_acl"])
    return blocks


class _Module:
    """One generated module: the class of the resource, and those of its blocks."""

    def __init__(self, text: str) -> None:
        self._classes = {
            node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)
        }

    def root(self, *, computed_by_aws: bool) -> Block:
        """The resource itself."""
        of = {"_cdktn_78ede62e.TerraformResource", "_cdktn_78ede62e.TerraformDataSource"}
        node = next(n for n in self._classes.values() if any(ast.unparse(b) in of for b in n.bases))
        block = self._block(node)
        not_attributes = META | set(block["blocks"])
        for getter in _functions(node):
            name = getter.name
            is_property = any(ast.unparse(d) == "builtins.property" for d in getter.decorator_list)
            if not is_property or name.endswith("_input") or name in not_attributes:
                continue
            attribute = block["attributes"].get(name)
            if attribute is None:
                kind = _attribute_type(ast.unparse(getter.returns)) if getter.returns else "dynamic"
                block["attributes"][name] = _default_attribute(kind)
            elif (computed_by_aws or name in OFTEN_COMPUTED) and not attribute["required"]:
                attribute["computed"] = True
        return block

    def _block(self, node: ast.ClassDef) -> Block:
        """The arguments of a class's constructor: attributes and blocks."""
        init = next(function for function in _functions(node) if function.name == "__init__")
        words = ast.get_docstring(init) or ""
        blocks = {name for name, block in _DOCUMENTED.findall(words) if block}
        block: Block = {"attributes": {}, "blocks": {}}
        for argument, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
            name = argument.arg
            kind = ast.unparse(argument.annotation) if argument.annotation else ""
            is_own_scope = name == "scope" and kind.endswith("builtins.str")
            if name in META - blocks and not is_own_scope:
                continue
            if name in blocks:
                block["blocks"][name] = {
                    "most": 0 if "typing.Sequence[" in kind else 1,
                    "least": 1 if default is None else 0,
                    "single": name == "timeouts",
                    "block": self._inner_block(kind),
                }
            else:
                block["attributes"][name] = _settable(
                    _attribute_type(kind), required=default is None
                )
        return block

    def _inner_block(self, annotation: str) -> Block:
        """The block of the class that an annotation names; an empty one where it names none."""
        for name in re.findall(r"'(\w+)'", annotation):
            if name in self._classes:
                return self._block(self._classes[name])
        return {"attributes": {}, "blocks": {}}


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [statement for statement in node.body if isinstance(statement, ast.FunctionDef)]


def _attribute_type(annotation: str) -> Any:
    """Terraform's type of an annotation."""
    inner = (
        annotation.removeprefix("typing.Optional[").removesuffix("]")
        if "Optional" in annotation
        else annotation
    )
    if inner in _PLAIN:
        return _PLAIN[inner]
    if inner.startswith("typing.Union[builtins.bool"):
        return "bool"
    for shape, word in (
        ("typing.Sequence[", "list"),
        ("typing.List[", "list"),
        ("typing.Mapping[", "map"),
    ):
        if inner.startswith(shape):
            element = next((t for name, t in _PLAIN.items() if inner.endswith(name + "]")), None)
            return [word, element] if element else "dynamic"
    return "dynamic"


def _settable(kind: str, *, required: bool = False) -> dict[str, Any]:
    return {"type": kind, "required": required, "computed": False, "settable": True}


def _default_attribute(kind: str) -> dict[str, Any]:
    return {"type": kind, "required": False, "computed": True, "settable": False}


EPHEMERAL: dict[str, Block] = {
    "aws_secretsmanager_random_password": {
        "attributes": {
            "password_length": _settable("number"),
            "random_password": _default_attribute("string"),
            **{
                name: _settable("bool")
                for name in (
                    "exclude_lowercase",
                    "exclude_numbers",
                    "exclude_punctuation",
                    "exclude_uppercase",
                    "include_space",
                    "require_each_included_type",
                )
            },
            "exclude_characters": _settable("string"),
        },
        "blocks": {},
    },
    "aws_secretsmanager_secret_version": {
        "attributes": {
            "secret_id": _settable("string", required=True),
            "version_id": _settable("string") | {"computed": True},
            "version_stage": _settable("string") | {"computed": True},
            "arn": _default_attribute("string"),
            "secret_string": _default_attribute("string"),
            "secret_binary": _default_attribute("string"),
            "created_date": _default_attribute("string"),
        },
        "blocks": {},
    },
}
"""Ephemeral resources, of which there are no classes: the provider's pages of the same names."""

_DEPTH = 3
"""How deep statements may lie in each other here; AWS takes three levels of and, or, not."""


def _add_statements(web_acl: Block) -> None:
    """A rule's statement contains statements, which the classes leave open: the provider's page
    `wafv2_web_acl`."""
    web_acl["blocks"]["rule"]["block"]["attributes"].pop("statement", None)
    web_acl["blocks"]["rule"]["block"]["blocks"]["statement"] = _block(1, 1, _statement(_DEPTH))


def _block(least: int, most: int, block: Block) -> dict[str, Any]:
    return {"least": least, "most": most, "single": False, "block": block}


def _of(attributes: dict[str, Any] | None = None, **blocks: Any) -> Block:
    return {"attributes": attributes or {}, "blocks": blocks}


def _statement(depth: int) -> Block:
    text = {
        "priority": _settable("number", required=True),
        "type": _settable("string", required=True),
    }
    name = {"name": _settable("string", required=True)}
    field = _of(
        uri_path=_block(0, 1, _of()),
        single_header=_block(0, 1, _of(name)),
        body=_block(0, 1, _of()),
    )
    common = {"field_to_match": _block(0, 1, field), "text_transformation": _block(1, 0, _of(text))}
    bytes_ = {
        "positional_constraint": _settable("string", required=True),
        "search_string": _settable("string", required=True),
    }
    size = {
        "comparison_operator": _settable("string", required=True),
        "size": _settable("number", required=True),
    }
    statement = _of(
        byte_match_statement=_block(0, 1, _of(bytes_, **common)),
        size_constraint_statement=_block(0, 1, _of(size, **common)),
    )
    if depth:
        inner = _statement(depth - 1)
        for logic, most in (("and", 0), ("or", 0), ("not", 1)):
            statement["blocks"][f"{logic}_statement"] = _block(
                0, 1, _of(statement=_block(1, most, inner))
            )
        rate = {
            "limit": _settable("number", required=True),
            "aggregate_key_type": _settable("string"),
            "evaluation_window_sec": _settable("number"),
        }
        scope = {"scope_down_statement": _block(0, 1, inner)}
        group = name | {
            "vendor_name": _settable("string", required=True),
            "version": _settable("string"),
        }
        statement["blocks"]["rate_based_statement"] = _block(0, 1, _of(rate, **scope))
        statement["blocks"]["managed_rule_group_statement"] = _block(0, 1, _of(group, **scope))
    return statement


if __name__ == "__main__":
    wheel, modules, target = map(Path, sys.argv[1:4])
    target.write_text(json.dumps(read_schemas(wheel, used_types(modules))), encoding="utf-8")
