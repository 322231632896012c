"""A real cluster, a master and two workers: nothing is lost and nothing doubled, whatever becomes of its processes.

Minutes long: `make test-cluster` runs it. Where namespaces can be made, workers have no route to the catalog at all.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.course import Plan
from tests.cluster.courses import run_course
from tests.cluster.test_local_cluster import check_many_inlined, check_upserted
from tests.fixtures.clusters import Network, make_network, run_cluster
from tests.fixtures.guarded import GuardedLake, guarded_lake
from tests.fixtures.postgres import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("TEST_CLUSTER" not in os.environ, reason="takes minutes: make test-cluster runs it"),
]
ROWS = 100_000
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "0ms",
}
ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}


@pytest.fixture
def lake(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[GuardedLake]:
    with guarded_lake(postgres_server, tmp_path) as found:
        yield found


@pytest.fixture
def network() -> Iterator[Network]:
    with make_network("dlcluster") as found:
        yield found


def test_nothing_is_lost_or_doubled_when_executors_and_workers_die(
    lake: GuardedLake, network: Network, tmp_path: Path
) -> None:
    steps = ["native", "tasks", "speculated_native", "speculated_tasks", "upserted", "routed", "streamed", "reads"]
    steps += ["feed_stream", "many_inlined", "merged", "fill_many", "feed", "worker_lost"]
    twice = {"rows": 2 * ROWS, "different": 2 * ROWS}
    with run_cluster(tmp_path, network) as cluster:
        settings = {**cluster.driver_settings, **SPECULATION}
        plan = Plan(cluster.master, lake.url, str(tmp_path), steps, ROWS, settings, catalog_timeout="1s")

        found = run_course(plan, lake.environment)

        workers = [worker.poll() for worker in cluster.workers]
    for name in ("native", "tasks", "speculated_native", "speculated_tasks", "worker_lost"):
        is_native = name.endswith("native")
        assert found[name] == {**twice, "attempts": 2, "native": 2 if is_native else 0}, name
    check_upserted(found["upserted"], ROWS)
    assert found["routed"] == {"even": ROWS // 2, "odd": 2 * ROWS // 5, "letters": ROWS // 10}
    assert found["streamed"] == {"rows": 3 * ROWS, "different": 3 * ROWS}
    assert found["reads"] == {"table": twice, "native": twice}
    assert found["feed_stream"] == twice
    check_many_inlined(found["many_inlined"], "no password supplied" if network.namespace is None else "gave up after")
    assert not found["merged"]["failed"], found["merged"]
    many = 500 * ROWS
    assert found["feed"] == {"partitions": 200, "rows": many, "sum": many * (many - 1) // 2}
    assert sum(code is not None for code in workers) == 1, "one worker is lost for good"


def test_executors_may_come_and_go_between_batches(lake: GuardedLake, network: Network, tmp_path: Path) -> None:
    with run_cluster(tmp_path, network) as cluster:
        settings = {**cluster.driver_settings, **ALLOCATION}
        plan = Plan(cluster.master, lake.url, str(tmp_path), ["allocated"], ROWS, settings)

        found = run_course(plan, lake.environment)["allocated"]

    assert all(found["executors"])
    assert found["rows"] == found["different"] == 3 * ROWS


def test_executors_with_a_disk_of_their_own_are_refused(lake: GuardedLake, network: Network, tmp_path: Path) -> None:
    if network.namespace is None:
        pytest.skip("needs a mount namespace, which only root may make")
    data = tmp_path / "data"
    data.mkdir()
    private = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs own {data} && exec "$@"', "sh"]
    with run_cluster(tmp_path, network, [(), private]) as cluster:
        plan = Plan(cluster.master, lake.url, str(tmp_path), ["unshared"], ROWS, cluster.driver_settings)

        found = run_course(plan, lake.environment)["unshared"]

    for name in ("unshared_native", "unshared_tasks"):
        assert "driver and executors do not share data path" in found[name]
    assert found["tables"] == []
