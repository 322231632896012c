"""From the bytes of Kafka records to values: one decoder for each format."""
