"""Which data files Spark's own Parquet reader reads just as we do, by their footers. Runs on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.field_match import Constant, Found, Source, field_id, match_fields
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile
from ducklake_core.spec.names import fold
from ducklake_core.spec.types import ROW_ID_FIELD, ROW_ID_NAME

METADATA = "_metadata"  # Spark's hidden column, which says where a row was
# Types whose Parquet forms Spark's reader does not read, or not as the values that they are.
_UNFIT = frozenset(
    {"int128", "uint128", "time", "time_ns", "timetz", "timestamp_s", "timestamp_ns", "interval", "uuid", "geometry"}
)
FOOTER_READERS = 16
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=/")
_LEFT_OUT = frozenset({"", ".", ".."})
_WORTH_A_SCAN = 2_000_000  # rows
_GLOB_CHARACTERS = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class NativeFile:
    """What a file calls the columns (None: it lacks one, which is null), or the reasons why Spark cannot read it."""

    file: DataFile
    names: tuple[str | None, ...] = ()
    reasons: tuple[str, ...] = ()
    size_bytes: int = 0
    rows: int = 0
    has_row_ids: bool | None = False  # None: who knows, some column has the name of the internal one

    def name(self, parts: int = 1) -> str:
        """Return the last parts of the path. Spark's own writer calls files of several partitions the same."""
        return "/".join(self.file.path.split("/")[-parts:])

    def has_plain_name(self, parts: int) -> bool:
        """Tell whether Spark calls the file as we do: it escapes some characters, and leaves out some parts."""
        name = self.name(parts)
        return set(name) <= _NAME_CHARACTERS and not _LEFT_OUT & set(name.split("/"))


def unfit_columns(columns: Sequence[Column]) -> Iterator[str]:
    """Yield why Spark's scan would not read some columns of any file just as we do."""
    for column in columns:
        for node in column.walk():
            if node.type in _UNFIT:
                yield f"column '{column.name}' has type '{node.type}'"
        if fold(column.name) == METADATA:
            yield f"column '{column.name}' has the name of Spark's own"


def may_overflow(columns: Sequence[Column]) -> bool:
    """Tell whether Spark's scan fails where a time is infinite: it multiplies milliseconds."""
    return any(node.type == "timestamp_ms" for column in columns for node in column.walk())


def unfit_file(file: DataFile) -> Iterator[str]:
    """Yield why Spark's scan would not read a file just as we do, as far as the catalog tells."""
    if file.mapping is not None:
        yield f"file '{file.path}' has a name mapping"
    if file.encryption_key is not None:
        yield f"file '{file.path}' is encrypted"
    if set(file.path) & _GLOB_CHARACTERS:
        yield f"file '{file.path}' has a character in its path that Spark takes for a pattern"


def read_footers(storage: Storage, files: Sequence[DataFile], columns: Sequence[Column]) -> list[NativeFile]:
    """Return what files have of columns, in the same order."""
    with ThreadPoolExecutor(FOOTER_READERS) as readers:
        return list(readers.map(lambda file: _read_footer(storage, file, columns), files))


def _read_footer(storage: Storage, file: DataFile, columns: Sequence[Column]) -> NativeFile:
    reasons = tuple(unfit_file(file))
    if file.mapping is not None or file.encryption_key is not None:
        return NativeFile(file, reasons=reasons)
    try:
        with storage.open_input(file.path) as source:
            size_bytes, parquet = source.size(), pq.ParquetFile(source)
            fields, leaves, rows = list(parquet.schema_arrow), parquet.schema, parquet.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(f"cannot read data file '{file.path}': {error}", path=file.path) from error
    if any(leaves.column(index).physical_type == "INT96" for index in range(len(leaves))):
        return NativeFile(file, reasons=(*reasons, f"file '{file.path}' has times of the old form INT96"))
    if not any(field_id(found) is not None for found in fields):
        return NativeFile(file, reasons=(*reasons, f"file '{file.path}' has no field ids"))
    sources = match_fields(fields, columns)
    names = tuple(fields[source.index].name if isinstance(source, Found) else None for source in sources)
    reasons = (*reasons, *_unfit_sources(file, columns, sources))
    return NativeFile(file, names, reasons, size_bytes, rows, _has_row_ids(fields))


def _unfit_sources(file: DataFile, columns: Sequence[Column], sources: Sequence[Source]) -> Iterator[str]:
    for column, source in zip(columns, sources, strict=True):
        if not _is_plain(source):
            yield f"column '{column.name}' has another type or a default in file '{file.path}'"
    if not any(isinstance(source, Found) for source in sources):
        yield f"file '{file.path}' has none of the columns"


def _is_plain(source: Source) -> bool:
    """Tell whether a column has the table's type in the file, or is missing there and null."""
    match source:
        case Found(is_unchanged=is_unchanged):
            return is_unchanged
        case Constant(text=text):
            return text is None


def _has_row_ids(fields: Sequence[pa.Field]) -> bool | None:
    """Tell whether rows have their ids in the file, by the name and of the type that all writers give them."""
    internal = [found for found in fields if field_id(found) == ROW_ID_FIELD]
    named = [found for found in fields if fold(found.name) == ROW_ID_NAME]
    if internal != named or any(found.type != pa.int64() for found in internal):
        return None
    return bool(internal)


# ------------------------------------------------------------------------------------------------ groups


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files for one scan, which call the columns the same. A row's file is known by its size alone, or by its name.

    `name_parts`: how many parts of its path, from the last, are a file's name; 0: it is known by its size.
    """

    names: tuple[str | None, ...]
    files: tuple[NativeFile, ...]
    name_parts: int = 0


def groups_of(files: Sequence[NativeFile], *, by_place: bool = True) -> Iterator[FileGroup]:
    """Yield files in groups, each for one scan. A size is found faster than a name, but each scan costs something.

    `by_place` False: nobody asks for the files of rows.
    """
    for names, found in _by_names(files).items():
        alike, parts = _alike(found) if by_place else set(), _name_parts(found)
        if not alike:
            yield FileGroup(names, tuple(found))
        elif sum(file.rows for file in found) < _WORTH_A_SCAN and all(file.has_plain_name(parts) for file in found):
            yield FileGroup(names, tuple(found), parts)
        else:
            others = tuple(file for file in found if file.size_bytes not in alike)
            yield FileGroup(names, tuple(file for file in found if file.size_bytes in alike), parts)
            yield from (FileGroup(names, some) for some in (others,) if some)


def unnamed(files: Sequence[NativeFile]) -> Iterator[NativeFile]:
    """Yield the files that a scan of all would know neither by size nor by name."""
    for found in _by_names(files).values():
        alike, parts = _alike(found), _name_parts(found)
        paths = Counter(file.file.path for file in found)
        yield from (
            f for f in found if f.size_bytes in alike and not (paths[f.file.path] == 1 and f.has_plain_name(parts))
        )


def _name_parts(files: Sequence[NativeFile]) -> int:
    """Return how many parts of the paths tell files apart, as few as will do."""
    paths = {file.file.path for file in files}
    tails = {path: path.split("/")[::-1] for path in paths}
    parts = 1
    while len({tuple(tail[:parts]) for tail in tails.values()}) < len(paths):
        parts += 1
    return parts


def _by_names(files: Sequence[NativeFile]) -> dict[tuple[str | None, ...], list[NativeFile]]:
    found: dict[tuple[str | None, ...], list[NativeFile]] = {}
    for file in files:
        found.setdefault(file.names, []).append(file)
    return found


def _alike(files: Sequence[NativeFile]) -> set[int]:
    """Return the sizes that several files have."""
    return {size for size, count in Counter(file.size_bytes for file in files).items() if count > 1}
