"""What the Python processes import that Spark starts for the first read of a session. No time is measured."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake

WRITES = {"ducklake_core.lake", "ducklake_core.transaction", "ducklake_core.upsert", "ducklake_core.maintenance"}
CATALOG = {"sqlalchemy", "pydantic", "ducklake_core.catalog"}
UNUSED = {"pandas", "psycopg", "sqlglot", "pyarrow.dataset", "duckdb"}  # psycopg: the catalog is SQLite
# Each step is what one process does; what was done before it, another has done.
PROBE = """
import json, pickle, sys
from pathlib import Path
from pyspark_ducklake import DefaultSource

step, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
kept = folder / f"{len(options)}.pickle"
if step == "look up":
    assert DefaultSource.name() == "ducklake"
elif step == "schema":
    source = DefaultSource(options)
    kept.write_bytes(pickle.dumps((source, source.schema())))
elif step == "read":
    reader, partitions = pickle.loads((folder / "plan.pickle").read_bytes())
    assert sum(batch.num_rows for one in partitions for batch in reader.read(one)) == 100
else:
    source, schema = pickle.loads(kept.read_bytes())
    if step == "plan":
        reader = source.reader(schema)
        partitions = reader.partitions()
        (folder / "plan.pickle").write_bytes(pickle.dumps((reader, partitions)))
    elif step == "hand on a stream":
        pickle.dumps(source.streamReader(schema))
    elif step == "stream":
        reader = source.streamReader(schema)
        partitions = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
        (folder / "plan.pickle").write_bytes(pickle.dumps((reader, partitions)))
        reader.stop()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cold")
    with Lake.create(f"sqlite:///{path}/lake.sqlite", f"{path}/data/") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        lake.append("t", pa.table({"i": range(100), "s": ["x"] * 100}))
    return path


def imported_by(step: str, folder: Path, **more: str) -> set[str]:
    options = {"catalog": f"sqlite:///{folder}/lake.sqlite", "table": "t", **more}
    command = [sys.executable, "-c", PROBE, step, str(folder), json.dumps(options)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_looking_for_the_format_imports_nothing_but_pyspark(folder: Path) -> None:
    found = imported_by("look up", folder)

    assert found & {"pyarrow", "numpy", "ducklake_core.model", *UNUSED, *CATALOG, *WRITES} == set()


def test_a_first_read_of_a_table_imports_only_what_reads(folder: Path) -> None:
    driver = [imported_by(step, folder) for step in ("schema", "plan")]
    executor = imported_by("read", folder)

    assert set.union(*driver) & (UNUSED | WRITES) == set()
    assert executor & (UNUSED | WRITES | CATALOG) == set()


def test_a_first_stream_imports_only_what_reads(folder: Path) -> None:
    changes = {"readChangeFeed": "true", "startingVersion": "1"}
    driver = [imported_by(step, folder, **changes) for step in ("schema", "stream")]
    between = imported_by("hand on a stream", folder, **changes)
    executor = imported_by("read", folder)

    assert set.union(*driver) & (UNUSED | WRITES) == set()
    assert (between | executor) & (UNUSED | WRITES | CATALOG) == set()
