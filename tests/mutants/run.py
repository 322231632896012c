"""Proves that tests guard the safeguards: `make mutants`, or `python -m tests.mutants.run [NAME…]`.

Each mutant is applied to a copy of the tree in a temporary directory, never to the tree itself, and its tests run
there: red is killed, green is survived, anything else (no such test, nothing imported) is broken. First the same tests
must be green without a mutant. Ends with 1 unless all are killed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import ROOT, Mutant, read_mutants

SOURCES = ("core", "sinks", "sources", "streaming")
COPIED = (*SOURCES, "tests", "scripts", "deploy", "docs", "grafana", "pyproject.toml", "README.md", "LICENSE")
GREEN, RED = 0, 1  # pytest's exit codes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant. `word`: killed, survived or broken."""

    name: str
    word: str
    seconds: float
    output: str


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("names", nargs="*", help="mutants to try, or beginnings of their names; all by default")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="how many at a time")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests are green without a mutant")
    parser.add_argument("--list", action="store_true", help="only say which there are, and why")
    options = parser.parse_args(arguments)
    chosen = choose(read_mutants(), options.names)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:<28} {mutant.why}")
        return 0
    if not options.no_baseline and not is_green(chosen):
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(attempt_and_tell, chosen))
    return report(outcomes)


def choose(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Return the mutants whose names begin with one of these; a name that none has ends the run."""
    for name in names:
        if not any(mutant.name.startswith(name) for mutant in mutants):
            raise SystemExit(f"there is no mutant '{name}': known are {', '.join(mutant.name for mutant in mutants)}")
    return [mutant for mutant in mutants if not names or mutant.name.startswith(tuple(names))]


def is_green(mutants: Sequence[Mutant]) -> bool:
    """Run all named tests on an unchanged copy."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with copied_tree() as folder:
        code, output = run_tests(Path(folder), tests)
    print(f"baseline: {'green' if code == GREEN else 'NOT GREEN'}, {len(tests)} tests named", flush=True)
    if code != GREEN:
        print(output[-4000:])
    return code == GREEN


def attempt_and_tell(mutant: Mutant) -> Outcome:
    outcome = attempt(mutant)
    print(f"{outcome.word:<9} {outcome.name:<28} {outcome.seconds:6.1f} s", flush=True)
    return outcome


def attempt(mutant: Mutant) -> Outcome:
    """Run a mutant's tests on a copy that has it."""
    start = time.monotonic()
    with copied_tree() as folder:
        try:
            mutant.apply(Path(folder))
        except ValueError as error:
            return Outcome(mutant.name, "broken", 0.0, str(error))
        code, output = run_tests(Path(folder), mutant.tests)
    word = {GREEN: "survived", RED: "killed"}.get(code, "broken")
    return Outcome(mutant.name, word, time.monotonic() - start, output)


def copied_tree() -> "tempfile.TemporaryDirectory[str]":
    """Return a directory with all that the tests need of the tree."""
    folder = tempfile.TemporaryDirectory(prefix="mutant-")
    for name in COPIED:
        source, target = ROOT / name, Path(folder.name) / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)
    return folder


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests with the code of a copy; return pytest's exit code, and what it says."""
    path = os.pathsep.join(str(root / source) for source in SOURCES)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": ""}
    where = subprocess.run(
        [sys.executable, "-c", "import ducklake_core; print(ducklake_core.__file__)"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if not where.startswith(str(root)):
        raise SystemExit(f"the copy in {root} is not what is imported, but {where}")
    options = ["-x", "-q", "--no-header", "--numprocesses=0", "-p", "no:cacheprovider", "--hypothesis-profile=check"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def report(outcomes: Sequence[Outcome]) -> int:
    """Say what became of all; return the exit code."""
    left = [outcome for outcome in outcomes if outcome.word != "killed"]
    for outcome in left:
        print(f"\n{outcome.word}: {outcome.name}\n{outcome.output[-2000:]}")
    print(f"\n{len(outcomes) - len(left)} of {len(outcomes)} mutants killed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
