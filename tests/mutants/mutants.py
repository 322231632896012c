"""The list of mutants: each takes one safeguard out of the code, and names the tests that turn red without it.

`make mutants` proves it; `tests/unit/test_mutants.py` keeps the list true to the code. To add one: a `[[mutant]]` in
`mutants.toml`.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: `old` stands exactly once in `file`. `why`: what goes wrong without the safeguard."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str

    def apply(self, root: Path) -> None:
        """Change a copy of the tree; raise ValueError when the place is not there once."""
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: its text stands {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new))


def read_mutants() -> list[Mutant]:
    found = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in found["mutant"]]
