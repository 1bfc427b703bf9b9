"""Job records made up for tests: nothing in them is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.parameter_servers.aiturbo_jobs import FEATURES, FILE, LABEL, JobRecords

if TYPE_CHECKING:
    from pathlib import Path


def made_up_records(jobs: int = 200, seed: int = 0, kinds: int = 8) -> JobRecords:
    """Every fourth job is unpredictable; the final accuracy says which, resubmission nearly so."""
    rng = np.random.default_rng(seed)
    unpredictable = np.arange(jobs) % 4 == 0
    columns = {feature.name: rng.integers(1, 9, jobs).astype(float) for feature in FEATURES}
    columns["job_type"] = rng.permutation(np.arange(jobs) % kinds) + 1.0
    columns["resubmit"] = (unpredictable ^ (rng.random(jobs) < 0.1)).astype(float)
    columns["throughput"] = rng.uniform(1.0, 100.0, jobs)
    columns["accuracy"] = np.where(
        unpredictable, rng.uniform(0.0, 0.4, jobs), rng.uniform(0.5, 1.0, jobs)
    )
    return JobRecords(np.column_stack([columns[f.name] for f in FEATURES]), unpredictable)


def write_records(records: JobRecords, folder: Path) -> Path:
    """Write records as the reader takes them, and return the file."""
    heading = ",".join([*(feature.name for feature in FEATURES), LABEL])
    lines = [
        ",".join([*map(repr, row), str(int(label))])
        for row, label in zip(records.values.tolist(), records.unpredictable, strict=True)
    ]
    path = folder / FILE
    path.write_text("\n".join([heading, *lines]) + "\n")
    return path
