"""The bounded words that labels have for errors and for reasons of dead letters. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from ducklake_core.errors import (
    CatalogError,
    CommitOutcomeUnknown,
    DuckLakeError,
    FeedError,
    InvalidInput,
    LedgerBehind,
    NotNullViolation,
    ObjectExists,
    ObjectNotFound,
    OffsetMismatch,
    SchemaMismatch,
    SnapshotsExpired,
    StreamFenced,
    TransientError,
    UnreadableFile,
    UnsupportedType,
    UnwritableFile,
)
from ducklake_streaming.jobs.exit_codes import find_own_error, is_data_loss
from ducklake_streaming.kafka.errors import BrokerRefused, BrokerUnavailable, RecordsLost, TopicNotFound


class FailureCause(StrEnum):
    """Why a batch or a query has failed."""

    CATALOG = "catalog"
    STORAGE = "storage"
    DATA = "data"
    FENCED = "fenced"
    LOST = "lost"
    OTHER = "other"


class LetterCause(StrEnum):
    """Why a record was kept aside."""

    UNREADABLE = "unreadable"
    SCHEMA = "schema"
    VALUE = "value"
    MISSING = "missing"
    OTHER = "other"


# The first that fits counts: what is below another in the tree of errors stands before it.
_FAILURES: tuple[tuple[tuple[type[DuckLakeError], ...], FailureCause], ...] = (
    ((StreamFenced,), FailureCause.FENCED),
    ((SnapshotsExpired, OffsetMismatch, LedgerBehind, RecordsLost), FailureCause.LOST),
    ((BrokerUnavailable, BrokerRefused, TopicNotFound), FailureCause.OTHER),
    ((UnwritableFile, UnreadableFile), FailureCause.STORAGE),
    ((TransientError, CatalogError, CommitOutcomeUnknown), FailureCause.CATALOG),
    ((SchemaMismatch, NotNullViolation, UnsupportedType, InvalidInput), FailureCause.DATA),
    ((FeedError, ObjectNotFound, ObjectExists), FailureCause.DATA),
)
# By what our sink and our decoders write. A reason may quote names and values of the data: patterns are anchored, or
# have words that follow on a quote.
_LETTERS: tuple[tuple[re.Pattern[str], LetterCause], ...] = tuple(
    (re.compile(pattern, re.DOTALL), cause)
    for pattern, cause in (
        # decoders: the format; a value that JSON Schema refuses is JSON
        (r"the value is no JSON of its schema: .*its schema has no such field$", LetterCause.SCHEMA),
        (r"the value is no JSON of its schema: field '", LetterCause.VALUE),
        (r"the value is no (UTF-8|JSON|line of CSV|envelope)", LetterCause.UNREADABLE),
        (r"the value has (an escaped half|not \d+ fields|\d+ bytes, fewer)", LetterCause.UNREADABLE),
        (r"the value begins with byte \d+", LetterCause.UNREADABLE),
        (r"the value does not fit its (Avro|Protobuf) schema", LetterCause.UNREADABLE),
        (r"the Avro value ends", LetterCause.UNREADABLE),
        # decoders: the schema
        (r"schema id \d+ (cannot be taken|is not in the schema registry)", LetterCause.SCHEMA),
        (r"the record is a message", LetterCause.SCHEMA),
        # decoders: nothing where something must be
        (r"a tombstone|the record has no value|the envelope has no after", LetterCause.MISSING),
        (r"field '.*' is (null|missing), and the schema says NOT NULL$", LetterCause.MISSING),
        # decoders: a value
        (r"field '|the value does not fit its JSON Schema|a value is out of range|value ", LetterCause.VALUE),
        # the sink
        (r"column '.*' of '.*' forbids nulls", LetterCause.MISSING),
        (r"(the route|column '.*') is null, so no table is named$", LetterCause.MISSING),
        (r"table '.*' has no columns|the data for '.*' (lacks|has column)", LetterCause.SCHEMA),
        (r"column '.*' is .*; cast it first$", LetterCause.SCHEMA),
        (r"column '|the route names|a text that is no UTF-8", LetterCause.VALUE),
    )
)


def failure_cause(error: BaseException) -> FailureCause:
    """Return the cause of a failure, also of one that Spark has wrapped."""
    known = find_own_error(error)
    if known is None:
        return FailureCause.LOST if is_data_loss(error) else FailureCause.OTHER
    return next((cause for kinds, cause in _FAILURES if isinstance(known, kinds)), FailureCause.OTHER)


def letter_cause(reason: str) -> LetterCause:
    """Return the cause of a dead letter by its reason."""
    return next((cause for pattern, cause in _LETTERS if pattern.match(reason)), LetterCause.OTHER)
