"""Whether the files of a lake are where we look for them: one that is gone and one that is elsewhere look the same."""

from __future__ import annotations

from itertools import islice

from ducklake_core.catalog.file_paths import registered_paths
from ducklake_core.catalog.lake_setup import is_absolute
from ducklake_core.catalog.other_lakes import read_data_path
from ducklake_core.catalog.scheduled_files import read_scheduled
from ducklake_core.maintenance.run import Maintained
from ducklake_core.spec.paths import hide_password, join_path

_PROBES = 10  # files that are looked for: one that is there tells that the place is right


def misplaced(lake: Maintained) -> str | None:
    """Say why the data path may be another place than that of the lake's files; None: nothing tells so."""
    path = hide_password(lake.data_path)
    if not lake.names_data_path and not is_absolute(lake.database.ask(read_data_path) or path):
        return (
            f"the catalog has a relative data path, which is '{path}' in this working directory and another one in "
            "others: say where its files are, by data_path=… and override_data_path=True, or --data-path and "
            "--override-data-path"
        )
    if lake.storage.is_local and not lake.storage.has_directory(lake.data_path) and _has_files(lake):
        return (
            f"the data path '{path}' does not exist: mount it; if its files were moved, say where to, by data_path=… "
            "and override_data_path=True or --data-path and --override-data-path"
        )
    if _is_elsewhere(lake):
        return f"no file that the catalog names is below '{path}': that is the data path of another lake, or of none"
    return None


def _is_elsewhere(lake: Maintained) -> bool:
    """Tell whether files are registered below the data path, and some that were looked for are not there."""
    registered = registered_paths(lake.database)
    below = (join_path(lake.data_path, one.path, is_relative=True) for one in registered if one.is_relative)
    sizes = [lake.storage.find_size(path) for path in islice(below, _PROBES)]
    return bool(sizes) and all(size is None for size in sizes)


def _has_files(lake: Maintained) -> bool:
    """Tell whether the catalog knows files: a lake that never had any has no directory for them, either."""
    return any(True for _ in registered_paths(lake.database)) or bool(lake.database.ask(read_scheduled))
