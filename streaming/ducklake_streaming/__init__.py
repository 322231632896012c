"""Run streams into and out of a DuckLake: sessions, a driver's end, maintenance, jobs and the command line.

from ducklake_streaming import maintain, make_session, run_until_stopped, start_metrics
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_streaming.maintenance.maintain import maintain
    from ducklake_streaming.metrics.start import start_metrics
    from ducklake_streaming.session import make_session
    from ducklake_streaming.stopping import run_until_stopped

    __version__: str

__all__ = ["maintain", "make_session", "run_until_stopped", "start_metrics"]

_MODULES = {
    "maintain": "maintenance.maintain",
    "make_session": "session",
    "run_until_stopped": "stopping",
    "start_metrics": "metrics.start",
}


def __getattr__(name: str) -> Any:  # Any: fixed by Python
    """Import what is asked for: the command line shows its help without Spark."""
    if name == "__version__":
        return import_module("ducklake_core.version").package_version()
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"ducklake_streaming.{_MODULES[name]}"), name)
