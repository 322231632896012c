"""Records whose schema is in a registry: Avro, Protobuf and JSON Schema in Confluent's wire format."""
