"""Options of Spark's Kafka source in a job file: which are its users' to give. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ducklake_core.spec.names import nearest_name

# Spark's options that a key of the file stands for.
_KEYS = {
    "assign": "topics or topic_pattern",
    "failondataloss": "fail_on_data_loss",
    "includeheaders": "nothing: headers are always read",
    "kafka.bootstrap.servers": "servers",
    "maxoffsetspertrigger": "max_records_per_trigger",
    "startingoffsets": "starting_offsets",
    "subscribe": "topics",
    "subscribepattern": "topic_pattern",
}
# Settings of Kafka's consumers that Spark refuses: it keeps the offsets and reads bytes.
_SPARKS_OWN = {
    "kafka.auto.offset.reset": "use starting_offsets",
    "kafka.enable.auto.commit": "the checkpoint and the ledger keep offsets",
    "kafka.interceptor.classes": "Spark allows none",
    "kafka.key.deserializer": "keys are bytes",
    "kafka.value.deserializer": "use format",
}
_OF_SOURCE = (
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs"),
    *("maxRecordsPerPartition", "maxTriggerDelay", "minOffsetsPerTrigger", "minPartitions"),
    *("startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingTimestamp"),
)


def mistakes_in_options(options: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with options that go to Spark as they are."""
    known = {name.lower() for name in _OF_SOURCE}
    for name in options:
        if name.lower() in _KEYS:
            yield f"options has '{name}': use {_KEYS[name.lower()]}"
        elif name.lower() in _SPARKS_OWN:
            yield f"options has '{name}', which Spark refuses: {_SPARKS_OWN[name.lower()]}"
        elif not name.lower().startswith("kafka.") and name.lower() not in known:
            near = nearest_name(name, _OF_SOURCE)
            yield f"options has '{name}', which Spark would not heed: did you mean '{near or f'kafka.{name}'}'?"
