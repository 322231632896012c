"""Protobuf: a schema's text is compiled by Google's compiler, and its runtime reads the messages."""
