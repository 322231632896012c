"""The list of mutants is true to the code, so that `make mutants` tries what it says."""

import ast
from functools import cache

import pytest

from tests.mutants.mutants import ROOT, Mutant, read_mutants

MUTANTS = read_mutants()


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_safeguard_stands_where_the_mutant_says(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()

    assert text.count(mutant.old) == 1
    if mutant.file.endswith(".py"):
        ast.parse(text.replace(mutant.old, mutant.new))
    assert mutant.old != mutant.new
    assert mutant.why


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_kill_it_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in functions_of(file)


def test_names_of_mutants_are_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)
