"""What we ask a Kafka cluster ourselves, beside Spark's own source: topics, offsets, lag, losses. No Spark, no Java."""
