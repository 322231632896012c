"""Stands in for a Kafka topic: a stream with the columns of Spark's Kafka source, two good records and two bad ones."""

from ducklake_streaming.session import make_session

spark = make_session("orders", "local[2]", settings={"spark.ui.enabled": "false"})
values = """VALUES
    (0, CAST('{"id": 1, "customer": "Ann", "amount": 9.5, "ordered_at": "2026-01-31T12:00:00Z"}' AS BINARY)),
    (1, CAST('{"id": 2, "customer": "Bob", "amount": 7, "ordered_at": "2026-02-01T12:00:00Z"}' AS BINARY)),
    (2, CAST('{"id": 3, "customer": ' AS BINARY)),
    (3, X'7b226964223a20342c2022637573746f6d6572223a2022ff227d')"""
kafka_like = spark.sql(f"SELECT col1 AS `offset`, col2 AS value FROM {values}")
kafka_like.write.parquet("topic")
records = (
    spark.readStream.schema(kafka_like.schema)
    .parquet("topic")
    .selectExpr(
        "CAST(NULL AS BINARY) AS key",
        "value",
        "'orders' AS topic",
        "0 AS `partition`",
        "CAST(`offset` AS BIGINT) AS `offset`",
        "current_timestamp() AS `timestamp`",
        "0 AS timestampType",
    )
)
