"""Write the JSON of all dashboards: `make dashboards`."""

from __future__ import annotations

from pathlib import Path

from grafana.generator.boards import DASHBOARDS
from grafana.generator.build import json_of

FOLDER = Path(__file__).parents[1] / "dashboards"

if __name__ == "__main__":
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.name}.json").write_text(json_of(dashboard))
