"""Every code block of the documentation runs.

Python blocks of one page are one program, run in an empty directory. A shell line that calls make is compared with the
Makefile's targets, because it would run these tests again; other shell blocks run in the repository.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CLONE = re.compile(r"^git clone |^cd ")


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    blocks: tuple[tuple[str, str], ...]

    def sources(self, language: str) -> list[str]:
        return [source for block_language, source in self.blocks if block_language == language]


def _read(path: Path) -> Page:
    return Page(path, tuple((match[1], match[2]) for match in FENCE.finditer(path.read_text())))


def _pages_with(language: str) -> list[Any]:  # Any: pytest keeps the type of its parameter sets to itself
    pages = map(_read, sorted(PAGES))
    return [pytest.param(page, id=str(page.path.relative_to(ROOT))) for page in pages if page.sources(language)]


@pytest.mark.parametrize("page", _pages_with("python"))
def test_python_blocks_run(page: Page, tmp_path: Path) -> None:
    program = "\n".join(page.sources("python"))

    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=tmp_path, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("page", _pages_with("sh"))
def test_shell_blocks_run(page: Page) -> None:
    for source in page.sources("sh"):
        lines = [line for line in source.splitlines() if not CLONE.match(line)]
        called = {word for line in lines if line.startswith("make ") for word in _targets(line)}
        assert called <= TARGETS
        others = [line for line in lines if not line.startswith("make ")]
        subprocess.run(["/bin/bash", "-euc", "\n".join(others)], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def _targets(line: str) -> list[str]:
    words = line.partition("#")[0].split()[1:]
    return [word for word in words if "=" not in word]
