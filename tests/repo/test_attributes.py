"""Attributes of the library's objects: an object has each of them from the beginning."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from tests.repo.source import PACKAGE, parsed, python_files

Function = ast.FunctionDef | ast.AsyncFunctionDef
MAKING = {"__init__", "__new__", "__attrs_post_init__"}


@functools.cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """The classes of the package and of its stubs, by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in [*python_files(PACKAGE), *sorted(PACKAGE.rglob("*.pyi"))]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def bases(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The class and all that it inherits from."""
    yield node
    for base in node.bases:
        name = ast.unparse(base).split("[", maxsplit=1)[0].split(".")[-1]
        for one in classes().get(name, ()):
            if one is not node:
                yield from bases(one)


@functools.cache
def methods(node: ast.ClassDef) -> dict[str, Function]:
    """Its own methods, and properties."""
    return {each.name: each for each in node.body if isinstance(each, Function)}


def declared(node: ast.ClassDef) -> set[str]:
    """Names in the body of the class: fields, defaults, properties, and what compiled code has."""
    body = [each for one in node.body for each in (one.body if isinstance(one, ast.If) else [one])]
    targets: list[ast.expr] = [each.target for each in body if isinstance(each, ast.AnnAssign)]
    targets += [target for each in body if isinstance(each, ast.Assign) for target in each.targets]
    return {ast.unparse(target) for target in targets} | methods(node).keys()


@functools.cache
def assigned(function: Function) -> set[str]:
    """The attributes of `self` that a method assigns."""
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if ast.unparse(node.value) == "self"
    }


def called(function: Function) -> set[str]:
    """The methods of `self` that a method calls."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {
        each.attr for each in calls if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
    }


def made(node: ast.ClassDef) -> set[str]:
    """The attributes that a new object has: declared, or assigned by the methods that make it, and those that these call."""
    family = list(bases(node))
    names = set().union(*map(declared, family))
    making, known = set(MAKING), set[str]()
    while making:
        known |= making
        found = [methods(each)[name] for each in family for name in making & methods(each).keys()]
        names |= set().union(*map(assigned, found))
        making = set().union(*map(called, found)) - known
    return names


def late(node: ast.ClassDef) -> list[str]:
    """The attributes that its objects do not have from the beginning, with a method that assigns each."""
    there = made(node)
    found = [method for each in bases(node) for method in methods(each).values()]
    return [
        f"{node.name}.{each.name}: self.{name}" for each in found for name in sorted(assigned(each) - there)
    ]


def test_an_object_has_its_attributes_from_the_beginning() -> None:
    """An attribute that a later method assigns first is missing where another method comes before it; no type checker tells."""
    own = [
        one
        for path in python_files(PACKAGE)
        for one in ast.walk(parsed(path))
        if isinstance(one, ast.ClassDef)
    ]
    inherited = {id(base) for node in own for base in list(bases(node))[1:]}
    # The others are parts of these.
    makeable = [node for node in own if MAKING & methods(node).keys() or id(node) not in inherited]
    assert len(makeable) > 300
    assert [each for node in makeable for each in late(node)] == []


def test_it_is_seen() -> None:
    """The rule finds an attribute that is assigned outside of the methods that make the object."""
    source = "class A:\n def __init__(self): self.b = 0; self._set_up()\n def _set_up(self): self.c = 1\n def d(self): self.e = 2"
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef)
    assert late(node) == ["A.d: self.e"]
