"""How far a lake scales: limits that follow from what its parts cost. Pure; `docs/scaling.md` shows what it says.

The costs are those that `benchmarks/scaling.py` has measured (`scaling_measured.json`). Commits of many streams follow
the universal scalability law: each commit takes the next snapshot id, so streams wait for each other and begin again.
All else grows by so much for each file, table or snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

MEASURED = Path(__file__).with_name("scaling_measured.json")
GIB, MIB = 2**30, 2**20


@dataclass(frozen=True, slots=True)
class Contention:
    """Commits per second of n streams that never pause: `rate * n / (1 + waiting (n-1) + crosstalk n (n-1))`."""

    rate: float
    waiting: float
    crosstalk: float

    @classmethod
    def fit(cls, measured: Mapping[int, float]) -> Self:
        """Find the law for some numbers of streams: `n / commits` is a sum of what is unknown."""
        n = np.array(list(measured), float)
        y = n / np.array(list(measured.values()))
        terms = [np.ones_like(n), n - 1, n * (n - 1)]
        fits = (np.linalg.lstsq(np.stack(terms[:count], 1), y, rcond=None)[0].tolist() for count in (3, 2, 1))
        found = next(fit for fit in fits if min(fit) >= 0)  # a term that would be negative is left out
        first, waiting, crosstalk = [*found, 0.0, 0.0][:3]
        return cls(1 / first, waiting / first, crosstalk / first)

    def commits_per_second(self, streams: float) -> float:
        return self.rate * streams / (1 + self.waiting * (streams - 1) + self.crosstalk * streams * (streams - 1))


@dataclass(frozen=True, slots=True)
class Line:
    """What grows by the same for each: `base + each * count`."""

    base: float
    each: float

    @classmethod
    def fit(cls, measured: Mapping[int, float]) -> Self:
        """Find the line; by least squares of the relative error, so that small counts matter as much as large ones."""
        n, y = np.array(list(measured), float), np.array(list(measured.values()))
        base, each = np.linalg.lstsq(np.stack([1 / y, n / y], 1), np.ones_like(y), rcond=None)[0].tolist()
        return cls(base, each) if each > 0 else cls(float(y.mean()), 0.0)  # nothing costs less when there is more of it

    def at(self, count: float) -> float:
        return self.base + self.each * count


@dataclass(frozen=True, slots=True)
class Costs:
    """What the parts cost. Milliseconds by files or tables, bytes of the catalog by each, bytes of a task's message."""

    contention: Contention
    group: Line  # ms of one commit, by the number of tables in it
    register: Line  # ms of a commit, by its files
    plan: Line  # ms to plan a read, by the files of the table
    open: Line  # ms to open a lake and find a table, by the lake's tables
    message: Line  # bytes of a task's message, by its files
    file_bytes: Line  # of the catalog for each file, by its columns
    snapshot_bytes: float
    table_bytes: float

    @classmethod
    def load(cls, path: Path = MEASURED) -> Self:
        return cls.fit(json.loads(path.read_text()))

    @classmethod
    def fit(cls, measured: Mapping[str, Any]) -> Self:  # Any: JSON
        """Find the costs from what was measured; points that are marked as checks are not looked at."""

        def points(name: str) -> dict[int, float]:
            checks = measured["checks"].get(name, [])
            return {int(n): value for n, value in measured[name].items() if int(n) not in checks}

        return cls(
            contention=Contention.fit(points("commits_per_second")),
            group=Line.fit(points("group")),
            register=Line.fit(points("register")),
            plan=Line.fit(points("plan")),
            open=Line.fit(points("open")),
            message=Line.fit(points("message")),
            file_bytes=Line.fit(points("file_bytes")),
            snapshot_bytes=measured["snapshot_bytes"],
            table_bytes=measured["table_bytes"],
        )

    def errors(self, measured: Mapping[str, Any]) -> dict[str, dict[int, float]]:  # Any: JSON
        """Return by how much each check is predicted wrongly: 0.1 is ten percent too much."""
        return {
            name: {
                int(n): self._predict(name, n) / measured[name][str(n)] - 1 for n in checks if str(n) in measured[name]
            }
            for name, checks in measured["checks"].items()
        }

    def _predict(self, name: str, count: int) -> float:
        if name == "commits_per_second":
            return self.contention.commits_per_second(count)
        line: Line = getattr(self, name)
        return line.at(count)


@dataclass(frozen=True, slots=True)
class Load:
    """A lake that somebody plans. `hottest`: the share of all files that are in the largest table."""

    name: str
    streams: int = 10
    trigger_seconds: float = 10.0
    tables: int = 100
    columns: int = 20
    files: int = 100_000
    kept_days: float = 1.0  # how long snapshots are kept
    files_in_batch: int = 100
    hottest: float = 0.1

    @property
    def commits_per_second(self) -> float:
        return self.streams / self.trigger_seconds

    @property
    def snapshots(self) -> float:
        return self.commits_per_second * self.kept_days * 86_400


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent: chosen, not measured."""

    catalog_bytes: float = 256 * GIB  # what one PostgreSQL keeps, backs up and vacuums without care
    plan_ms: float = 10_000
    open_ms: float = 10_000
    results_bytes: float = GIB  # spark.driver.maxResultSize by default


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of something a load takes. `share` 1: all of it."""

    name: str
    needed: float
    available: float
    unit: str

    @property
    def share(self) -> float:
        return self.needed / self.available


def limits_of(load: Load, costs: Costs, budget: Budget = Budget()) -> list[Limit]:  # noqa: B008 # frozen
    """Return the limits of a load, the one that is hit first before the others."""
    catalog = (
        load.files * costs.file_bytes.at(load.columns)
        + load.snapshots * costs.snapshot_bytes
        + load.tables * costs.table_bytes
    )
    hottest_files = load.files * load.hottest
    found = [
        Limit("commits", load.commits_per_second, costs.contention.commits_per_second(load.streams), "per second"),
        Limit("catalog", catalog / GIB, budget.catalog_bytes / GIB, "GiB"),
        Limit("planning", costs.plan.at(hottest_files) / 1000, budget.plan_ms / 1000, "s"),
        Limit("opening", costs.open.at(load.tables) / 1000, budget.open_ms / 1000, "s"),
        Limit("messages", costs.message.at(load.files_in_batch) / MIB, budget.results_bytes / MIB, "MiB"),
    ]
    return sorted(found, key=lambda limit: -limit.share)


PETABYTE, FILE_BYTES = 10**15, 128 * 2**20
LOADS = (
    Load("10 streams, 100 tables, 100,000 files"),
    Load("1,000 streams", streams=1000, tables=1000, files=1_000_000),
    Load("1,000 streams, trigger of a minute", streams=1000, trigger_seconds=60, tables=1000, files=1_000_000),
    Load("100,000 tables", tables=100_000, files=1_000_000, hottest=0.01),
    Load("100 million files", files=100_000_000),
    Load("a petabyte in files of 128 MiB", files=PETABYTE // FILE_BYTES, tables=1000),
)


def prediction_lines(costs: Costs, loads: Sequence[Load] = LOADS) -> list[str]:
    """Return what loads take of each limit, as rows of a table."""
    names = ["commits", "catalog", "planning", "opening", "messages"]
    lines = [f"| load | {' | '.join(names)} | hit first |", "|---|" + "--:|" * len(names) + "---|"]
    for load in loads:
        limits = limits_of(load, costs)
        shares = {limit.name: f"{limit.needed:.3g} {limit.unit} ({limit.share:.1%})" for limit in limits}
        lines.append(f"| {load.name} | {' | '.join(shares[name] for name in names)} | {limits[0].name} |")
    return lines


if __name__ == "__main__":
    print("\n".join(prediction_lines(Costs.load())))
