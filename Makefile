# `make` alone explains the targets. Each makes what it needs: the environment in .venv, and Java where Spark runs.

SHELL := /bin/bash
BIN := .venv/bin
ENVIRONMENT := .venv/.stamp
CLASSES := .venv/spark-home/classes.jsa
CATALOG ?= sqlite
INPUT ?= rate
# Else each Python process of Spark and of the tests compiles all that it imports again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test kafka-jars test-s3-spark image test-image kube-tools test-kube test-under-load check bench bench-sink bench-kafka bench-latency bench-expiry bench-maintenance bench-metrics bench-feed bench-spark-feed bench-cold bench-read bench-upsert bench-contention bench-peers bench-flush test-postgres-versions bench-scaling test-cluster test-spark fuzz chaos-kafka soak mutants docs picture dashboards dashboard-pictures format lock clean

help: ## explain the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(ENVIRONMENT) ## stream into a new lake in ./demo-lake with Spark, for a minute (CATALOG=postgres, INPUT=kafka)
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/ducklake-stream demo --catalog $(CATALOG) --input $(INPUT) $(ARGS)

test: $(ENVIRONMENT) $(CLASSES) kafka-jars ## run every test, with real PostgreSQL, Kafka, DuckDB and Spark (ARGS="-k name" to choose)
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/pytest --numprocesses auto $(ARGS)

kafka-jars: $(ENVIRONMENT) ## fetch Kafka and a schema registry into ~/.cache, once; tests that need them are skipped without
	@$(BIN)/python -m ducklake_streaming.demo.maven kafka-broker kafka-connector schema-registry >/dev/null \
		|| echo 'tests with Kafka or a schema registry will be skipped' >&2

test-s3-spark: $(ENVIRONMENT) ## run the tests of Spark's own way to S3: checkpoints, scans and writes by hadoop-aws (fetches 13 MB once)
	@jars=$$($(BIN)/python -m ducklake_streaming.demo.maven s3-connector s3-committer) && java_home=$$(scripts/java.sh) \
		&& HADOOP_AWS_JARS="$$jars" JAVA_HOME=$$java_home $(BIN)/pytest tests/storage/test_s3_spark.py $(ARGS)

image: ## build the container image by docker, podman or buildah (IMAGE=ducklake-stream:0.1.0)
	@deploy/docker/build.sh $(ARGS)

test-image: $(ENVIRONMENT) ## build the image without a registry, as root, and run jobs from it with a read-only root (minutes)
	@TEST_IMAGE=1 $(BIN)/pytest tests/deploy/test_image.py $(ARGS)

kube-tools: ## build helm, kube-apiserver and etcd for tests into ~/.cache, once (Go; minutes)
	@for tool in helm kube-apiserver etcd crds; do scripts/kube.sh $$tool; done

test-kube: $(ENVIRONMENT) kube-tools ## let Helm and a real Kubernetes API server take every manifest, and spark-submit make a driver
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home TEST_KUBE=1 $(BIN)/pytest tests/deploy $(ARGS)

test-under-load: $(ENVIRONMENT) $(CLASSES) kafka-jars ## run every test three times beside a load of twice the cores (ROUNDS=3, AT_ONCE=1, ARGS)
	@ROUNDS=$(or $(ROUNDS),3) AT_ONCE=$(AT_ONCE) scripts/test_under_load.sh $(ARGS)

check: $(ENVIRONMENT) ## check format, lint, types, import rules and run the unit tests: seconds
	@$(BIN)/ruff format --check --quiet . || { echo 'run "make format"'; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -m "not slow" --numprocesses auto --hypothesis-profile=check $(ARGS) tests/unit

bench: $(ENVIRONMENT) ## measure commits: ours, the DuckDB extension's and the floor (ARGS="--help" for the options)
	@$(BIN)/python -m benchmarks.commit $(ARGS)

bench-sink: $(ENVIRONMENT) ## measure the sink: ARGS="small", "large", "many" or "beside" (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.sink $(ARGS)

bench-kafka: $(ENVIRONMENT) kafka-jars ## measure what a job adds to Spark's reading of Kafka: ARGS="share", "bad", "sustain" or "formats"
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.kafka $(ARGS)

bench-latency: $(ENVIRONMENT) ## measure how long a row takes from a commit to a reader of changes (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.latency $(ARGS)

bench-expiry: $(ENVIRONMENT) ## measure the expiry of snapshots: ours and the DuckDB extension's (ARGS="--help")
	@$(BIN)/python -m benchmarks.expiry $(ARGS)

bench-maintenance: $(ENVIRONMENT) ## measure merges and rewrites of files: ours and the DuckDB extension's (ARGS="--help")
	@$(BIN)/python -m benchmarks.maintenance $(ARGS)

bench-metrics: $(ENVIRONMENT) ## measure what metrics add to a micro-batch of 100 rows (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.metrics $(ARGS)

bench-feed: $(ENVIRONMENT) ## measure change feeds: ours and the DuckDB extension's, and what planning costs (ARGS="--help")
	@$(BIN)/python -m benchmarks.feed $(ARGS)

bench-spark-feed: $(ENVIRONMENT) ## measure changes read by Spark: by our own reader and by Spark's scan (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.spark_feed $(ARGS)

bench-cold: $(ENVIRONMENT) ## measure the first read of a Spark session, and a command that shows its help (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.cold $(ARGS)

bench-read: $(ENVIRONMENT) ## measure reads of a table by Spark: ours and Spark's own scan of the same files (ARGS="--help")
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks.read $(ARGS)

bench-upsert: $(ENVIRONMENT) ## measure upserts: ours, the DuckDB extension's MERGE INTO, and appends (ARGS="--help")
	@$(BIN)/python -m benchmarks.upsert $(ARGS)

bench-contention: $(ENVIRONMENT) ## measure upserts beside 50 appends a second to the same table (ARGS="--help")
	@$(BIN)/python -m benchmarks.upsert_contention $(ARGS)

bench-peers: $(ENVIRONMENT) ## measure reads and writes beside Delta Lake and Iceberg: ARGS="feed stream read sink upsert" (fetches 460 MB once)
	@java_home=$$(scripts/java.sh) && python=$$(scripts/peers.sh) \
		&& JAVA_HOME=$$java_home PYTHONPATH=core:sinks:sources:streaming:. $$python -m benchmarks.peers $(ARGS)

bench-flush: $(ENVIRONMENT) ## measure flushes of inlined rows: ours and the DuckDB extension's (ARGS="--help")
	@$(BIN)/python -m benchmarks.flush $(ARGS)

test-postgres-versions: $(ENVIRONMENT) ## run a short set of tests with PostgreSQL 14 to 18 (POSTGRES="18" to choose)
	@scripts/postgres_versions.sh $(or $(POSTGRES),14 15 16 17 18)
bench-scaling: $(ENVIRONMENT) ## measure what commits, files and tables cost, and one PostgreSQL with 1 to 64 streams (ARGS="--help")
	@$(BIN)/python -m benchmarks.scaling $(ARGS)

test-cluster: $(ENVIRONMENT) ## run a Spark cluster of a master and two workers, and let its processes die (minutes)
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home TEST_CLUSTER=1 $(BIN)/pytest tests/cluster $(ARGS)

test-spark: $(ENVIRONMENT) ## run the tests of reads with each version of Spark that we support (SPARK="4.1" to choose)
	@scripts/spark_versions.sh $(or $(SPARK),4.1 4.2 4.3)

fuzz: $(ENVIRONMENT) ## take new random walks and draw new examples, for long (FUZZ_EXAMPLES=2000; ARGS="-k name" to choose)
	@$(BIN)/pytest -m "fuzz or hypothesis" --hypothesis-profile=fuzz --timeout=0 $(ARGS)

chaos-kafka: $(ENVIRONMENT) kafka-jars ## kill a job ten times, restart Kafka and PostgreSQL: 200,000 records, once each (CHAOS_SEED=12)
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home CHAOS_SIZE=large $(BIN)/pytest tests/jobs/test_kafka_chaos.py $(ARGS)

soak: $(ENVIRONMENT) ## make 20,000 commits beside flushes and maintenance, and see that the lake stays as fast (ARGS="--help")
	@$(BIN)/python -m benchmarks.soak $(ARGS)

mutants: $(ENVIRONMENT) $(CLASSES) ## take out one safeguard after another and see that a test notices (ARGS="sink- --jobs 2" to choose)
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m tests.mutants.run $(ARGS)

docs: $(ENVIRONMENT) ## write the tables of options in docs/ as the code has them
	@$(BIN)/python -m tests.docs.option_tables

picture: $(ENVIRONMENT) kafka-jars ## make the picture of the status page in docs/images, from a demo with Kafka
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m tests.docs.status_page_picture

dashboards: $(ENVIRONMENT) ## write the JSON of the dashboards in grafana/ as the code has them
	@$(BIN)/python -m grafana.generator

dashboard-pictures: $(ENVIRONMENT) kafka-jars ## draw the pictures of docs/dashboards.md from a run with faults
	@java_home=$$(scripts/java.sh) && JAVA_HOME=$$java_home DASHBOARD_PICTURES=docs/images $(BIN)/pytest tests/dashboards/test_run.py

format: $(ENVIRONMENT) ## format the code and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

lock: $(ENVIRONMENT) ## choose the newest versions that pyproject.toml allows and write constraints.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --custom-compile-command 'make lock' \
		--no-emit-index-url --no-emit-find-links --group dev --output-file constraints.txt pyproject.toml

clean: ## remove the environment, caches, builds and the demo lake
	@rm -rf .venv .venv-spark-* build dist demo-lake .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ENVIRONMENT): constraints.txt pyproject.toml scripts/environment.sh
	@scripts/environment.sh
	@touch $@

# Not needed, but each JVM of the tests starts in half the time with it.
$(CLASSES): $(ENVIRONMENT) tests/fixtures/spark_work.py
	@java_home=$$(scripts/java.sh) && { JAVA_HOME=$$java_home $(BIN)/python -m tests.fixtures.quick_spark 2>/dev/null \
		|| echo 'the tests load the classes of Spark one by one' >&2; }
