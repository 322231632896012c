"""JSON Schema: values are JSON, checked against the schema of their writer."""
