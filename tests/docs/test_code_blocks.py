"""Every code block of the documentation runs as a user runs it.

Python blocks of one page are pasted one after the other into one `python -i`, in an empty directory. Where a page names
a Kafka broker, a real one answers. A block that says why it cannot run here is only compiled, line by line as the
prompt does it. A shell line that calls make is compared with the Makefile's targets, because it would run these tests
again; other shell blocks run in the repository.
"""

import os
import re
import subprocess
from codeop import CommandCompiler
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.kafka_jars import connector_jars
from tests.fixtures.repl import Repl, ReplError

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
# `<!-- not run here: REASON -->` may stand before a block.
FENCE = re.compile(
    r"^(?P<mark><!-- not run here: [^\n]+ -->\n)?```(?P<language>python|sh)\n(?P<source>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CLONE = re.compile(r"^git clone |^cd ")

# What pages name, and tests have elsewhere.
BROKER = "localhost:9092"
MAVEN = "https://repo1.maven.org/maven2/org/apache"
ORDERS = [
    b'{"id": 1, "customer": "Ann", "amount": 9.5, "ordered_at": "2026-01-31T12:00:00Z"}',
    b'{"id": 2, "customer": "Bob", "amount": 7, "ordered_at": "2026-02-01T12:00:00Z"}',
    b'{"id": 3, "customer": ',
    b'{"id": 4, "customer": "\xff"}',
]


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    source: str
    is_run: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    blocks: tuple[Block, ...]

    def of(self, language: str) -> list[Block]:
        return [block for block in self.blocks if block.language == language]

    def runnable(self, language: str) -> list[str]:
        return [block.source for block in self.of(language) if block.is_run]


def _read(path: Path) -> Page:
    found = FENCE.finditer(path.read_text())
    return Page(path, tuple(Block(m["language"], m["source"], m["mark"] is None) for m in found))


def _pages_with(language: str) -> list[Any]:  # Any: pytest keeps the type of its parameter sets to itself
    pages = map(_read, sorted(PAGES))
    return [pytest.param(page, id=str(page.path.relative_to(ROOT))) for page in pages if page.of(language)]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # ends what hangs: a page with Spark took 300 s beside much other work
@pytest.mark.parametrize("page", _pages_with("python"))
def test_python_blocks_can_be_pasted_into_the_prompt(
    page: Page, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sources = page.runnable("python")
    if any(BROKER in source for source in sources):
        sources = _with_broker(sources, request.getfixturevalue("kafka"))

    with Repl(tmp_path) as repl:
        for source in sources:
            repl.paste(source)
        code = repl.end()

    assert code == 0, repl.screen


@pytest.mark.parametrize("page", _pages_with("python"))
def test_python_blocks_are_whole_statements_line_by_line(page: Page) -> None:
    for block in page.of("python"):
        assert rest_of_statement(block.source) == "", block.source


def test_a_statement_right_after_an_indented_block_is_refused() -> None:
    with pytest.raises(SyntaxError):
        rest_of_statement("with open('x') as file:\n    file.read()\nprint(1)\n")
    assert rest_of_statement("with open('x') as file:\n    file.read()\n") != ""


def test_the_prompt_tells_of_errors_and_of_open_statements(tmp_path: Path) -> None:
    with pytest.raises(ReplError, match="ZeroDivisionError"), Repl(tmp_path) as repl:
        repl.paste("1 / 0\n")
    with pytest.raises(ReplError, match="SyntaxError"), Repl(tmp_path) as repl:
        repl.paste("if True:\n    x = 1\nprint(x)\n")
    with pytest.raises(ReplError, match="ends inside a statement"), Repl(tmp_path) as repl:
        repl.paste("if True:\n    x = 1\n")


@pytest.mark.parametrize("page", _pages_with("sh"))
def test_shell_blocks_run(page: Page) -> None:
    for source in page.runnable("sh"):
        lines = [line for line in source.splitlines() if not CLONE.match(line)]
        called = {word for line in lines if line.startswith("make ") for word in _targets(line)}
        assert called <= TARGETS
        others = [line for line in lines if not line.startswith("make ")]
        subprocess.run(["/bin/bash", "-euc", "\n".join(others)], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def rest_of_statement(source: str) -> str:
    """Compile the lines as the prompt does, and return those of a statement that is not ended."""
    compile_ = CommandCompiler()
    waiting = ""
    for line in source.splitlines():
        waiting = f"{waiting}\n{line}" if waiting else line
        if compile_(waiting, symbol="single") is not None:
            waiting = ""
    return waiting


def _with_broker(sources: list[str], kafka: Kafka) -> list[str]:
    """Fill the page's topic, and put the addresses of our broker and of our jars in the place of the page's."""
    kafka.produce(kafka.create_topic(name="orders"), [Record(0, order) for order in ORDERS])
    folder = Path(os.path.commonpath(connector_jars())).as_uri()
    return [source.replace(BROKER, kafka.servers).replace(MAVEN, folder) for source in sources]


def _targets(line: str) -> list[str]:
    words = line.partition("#")[0].split()[1:]
    return [word for word in words if "=" not in word]
