"""The page about maintenance: its commands run, its job file is right, its numbers are those of the code."""

import re
from pathlib import Path

from ducklake_core import Lake
from ducklake_core.maintenance.report import Operation
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.maintenance.runners import LARGE_BYTES
from tests.docs.console_blocks import check_commands, make_lake_of_orders
from tests.docs.test_jobs_page import completed

PAGE = (Path(__file__).parents[2] / "docs" / "keep-a-lake-fast.md").read_text()


def test_commands_of_the_page_show_what_it_says(tmp_path: Path) -> None:
    make_lake_of_orders(tmp_path)
    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite") as lake:
        for _ in range(3):
            lake.append("orders", {"id": [*range(100)], "amount": [1.0] * 100})

    check_commands(PAGE, tmp_path, at_least=6)

    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite") as lake:
        assert lake.table("orders").count() == 306


def test_the_piece_of_a_job_file_can_be_part_of_one(tmp_path: Path) -> None:
    [block] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "job.toml").write_text(completed(block))

    assert load_job(tmp_path / "job.toml").job.maintenance is not None


def test_operations_are_listed_in_their_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [*Operation]


def test_numbers_are_those_of_the_code() -> None:
    keys = {name: field.default for name, field in MaintenanceSettings.model_fields.items()}

    assert LARGE_BYTES == 256 * 2**20
    assert (keys["share"], keys["executor_tasks"]) == (0.25, 1)
    prose = " ".join(PAGE.split())
    assert all(text in prose for text in ("256 MiB", "`share = 0.25`", "one task at a time (`executor_tasks`)"))
