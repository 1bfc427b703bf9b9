"""AdaptDL's own tests of its policy, with ours in the place of its genetic algorithm.

`make test-adaptdl` fetches AdaptDL (its published packages, with the tests in them) and runs this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Folder of AdaptDL's packages, and the tests of its policy there.
ADAPTDL = Path(os.environ.get("GOODALLOC_ADAPTDL", "build/adaptdl")).resolve()
SUITES = ("pollux_test.py", "non_preemptible_test.py")

#: Puts our policy where theirs is imported from, and what newer Pythons and NumPys took away.
PLUGIN = """
import random
import sys
from types import ModuleType

import numpy

from goodalloc.solvers.policies.adaptdl import PolluxPolicy

policy = ModuleType("adaptdl_sched.policy.pollux")
policy.PolluxPolicy = PolluxPolicy
sys.modules[policy.__name__] = policy

numpy.int = int
sample = random.sample
random.sample = lambda population, count: sample(list(population), count)
"""

pytestmark = pytest.mark.skipif(
    not (ADAPTDL / "adaptdl_sched").is_dir(),
    reason="needs AdaptDL's packages in the folder GOODALLOC_ADAPTDL (make test-adaptdl)",
)


@pytest.mark.parametrize("suite", SUITES)
def test_adaptdls_own_tests_pass_with_our_policy(
    suite: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """All of them, as they are."""
    (tmp_path / "ours.py").write_text(PLUGIN, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ADAPTDL), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "ours", "-p", "no:cacheprovider"),
            *("--rootdir", str(tmp_path), "--import-mode", "importlib"),
            str(ADAPTDL / "adaptdl_sched" / "policy" / suite),
        ],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {"pollux_test.py": 7, "non_preemptible_test.py": 4}[suite]
    assert f"{passed} passed" in done.stdout
