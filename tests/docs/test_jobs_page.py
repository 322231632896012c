"""The pages of job files and of upserts: each piece of a job file in them can be part of one."""

import re
from pathlib import Path

import pytest

from ducklake_streaming.jobs.job_file import load_job

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [(DOCS / name).read_text() for name in ("jobs.md", "upserts.md")]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
CATALOG = '[catalog]\nurl = "sqlite:///lake.sqlite"\n'
NAME = re.compile(r"^\[pipeline\.(\w+)", re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0].strip("[]"))
def test_piece_of_a_job_file_can_be_part_of_one(block: str, tmp_path: Path) -> None:
    (tmp_path / "orders.ddl").write_text("id bigint, amount double")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "registry").write_text("hunter2\n")
    (tmp_path / "job.toml").write_text(completed(block))

    found = load_job(tmp_path / "job.toml", {"LAKE_PASSWORD": "hunter2", "KAFKA_LOGIN": 'X password="hunter2";'})

    assert found.job.pipeline
    assert "hunter2" not in repr(found)


def completed(block: str) -> str:
    """Return a piece of a job file with what a whole one needs besides."""
    names = NAME.findall(block)
    name = names[0] if names else "orders"
    rest = {
        "[catalog]": CATALOG,
        f"[pipeline.{name}]": f'[pipeline.{name}]\ncheckpoint = "checkpoints/{name}"\n',
        f"[pipeline.{name}.input]": f'[pipeline.{name}.input]\nkind = "rate"\n',
        f"[pipeline.{name}.sink]": f'[pipeline.{name}.sink]\ntable = "main.{name}"\n',
    }
    return "\n".join([block, *(text for head, text in rest.items() if head not in block)])


def test_the_page_has_pieces() -> None:
    assert len(BLOCKS) >= 11
