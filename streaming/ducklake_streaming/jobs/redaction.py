"""What Spark shall not show of a job's inputs, as a setting of its own. Runs on the driver, before Spark starts."""

from __future__ import annotations

import re

from ducklake_core.references import ReferencedText
from ducklake_streaming.jobs.inputs import input_options
from ducklake_streaming.jobs.settings import Job

_SETTING = "spark.redaction.regex"
_DEFAULT = "(?i)secret|password|token|access[.]?key"  # Spark's own


def redaction_settings(job: Job) -> dict[str, str]:
    """Return the setting by which Spark hides what options of inputs refer to, beside what it hides anyway."""
    inputs = [input_options(pipeline.input, job) for pipeline in job.pipeline.values()]
    names = {name for options in inputs for name, value in options.items() if isinstance(value, ReferencedText)}
    if not names:
        return {}
    return {_SETTING: "|".join([job.spark.settings.get(_SETTING, _DEFAULT), *map(re.escape, sorted(names))])}
