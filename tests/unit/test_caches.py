"""Statements are kept to be compiled once, but a process that meets ever new tables must not keep them all."""

import inspect
import pkgutil
from importlib import import_module

import ducklake_core.catalog


def test_what_is_remembered_of_tables_is_bounded() -> None:
    unbounded = []
    bounded = 0
    for module in pkgutil.walk_packages(ducklake_core.catalog.__path__, "ducklake_core.catalog."):
        for name, found in vars(import_module(module.name)).items():
            if not hasattr(found, "cache_parameters"):
                continue
            kinds = [str(p.annotation) for p in inspect.signature(found).parameters.values()]
            if not any(kind == "Table" or kind.startswith(("tuple", "Sequence")) for kind in kinds):
                continue
            bounded += 1
            if found.cache_parameters()["maxsize"] is None:
                unbounded.append(f"{module.name}.{name}")
    assert unbounded == []
    assert bounded >= 10
