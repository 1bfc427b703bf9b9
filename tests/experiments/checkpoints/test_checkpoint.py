"""Checkpoints of replays: what they keep, that nothing in them is run, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission, write_workload
from goodalloc.experiments.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SHORT, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Files that equal replays write to the byte.
SAME = ("rounds.csv", "samples.csv", "jobs.csv", "replay.json")

#: More jobs than fit; a node is gone for a while, and later jobs learn from earlier ones.
CROWDED = tuple(
    Submission(f"{name}-{index}", 40 + 150 * index, name, replicas, batch)
    for index, (name, replicas, batch) in enumerate(
        [("ncf", 1, 32768), ("cifar10", 4, 1024), ("ncf", 2, 32768), ("cifar10", 3, 512)] * 2
    )
)
PLAIN = Setting(Cluster.uniform(2, 4), outages=(Outage(600, 900, 1),), knowledge="history")
CORES = resources({"cpu": 24.0})
TYPED = Setting(
    Cluster((NodeGroup("a", 1, 4, "t4", CORES), NodeGroup("b", 1, 4, "a100", CORES))),
    knowledge="history",
)
CLOUD = Setting(Cluster.uniform(1, 4))


class Killed(Exception):
    """The replay ended here."""


def replay(
    folder: Path,
    policy: str,
    setting: Setting = SMALL,
    *,
    jobs: Any = SHORT,
    rounds: int | None = None,
) -> Simulator:
    """Replay with a checkpoint every three rounds, to the end or until it is killed."""
    folder.mkdir(exist_ok=True)
    made = make_policy(policy, PolicyOptions(seed=3))
    simulator = Simulator(jobs, profiled_applications(), made, setting)
    left = iter(range(rounds if rounds is not None else 10**9))

    def kill(_: Simulator) -> None:
        if next(left, None) is None:
            raise Killed

    Replay(simulator, folder, {"policy": policy}, every=3).run(kill)
    return simulator


def killed(folder: Path, policy: str, setting: Setting = SMALL, *, jobs: Any = SHORT) -> bool:
    """Replay some rounds more; whether it was killed meanwhile."""
    try:
        replay(folder, policy, setting, jobs=jobs, rounds=13)
    except Killed:
        return True
    return False


def require_same(tmp_path: Path, policy: str, setting: Setting, jobs: Any = CROWDED) -> None:
    """A replay that is killed again and again writes what one writes that is not."""
    replay(tmp_path / "whole", policy, setting, jobs=jobs)
    times = 0
    while killed(tmp_path / "killed", policy, setting, jobs=jobs):
        assert (tmp_path / "killed" / "checkpoint.json").exists()
        times += 1
    assert times
    for name in SAME:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "killed" / "checkpoint.json").exists()


QUICK = ("tiresias-gittins", "gavel-packed", "gavel-levels", "gandiva", "themis", "antman")


@pytest.mark.parametrize("policy", QUICK)
def test_policies_that_remember_go_on_to_the_same_bytes(tmp_path: Path, policy: str) -> None:
    """Queues, shares, pairs, slices and leases, under an outage."""
    require_same(tmp_path, policy, PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in QUICK])
def test_every_policy_goes_on_to_the_same_bytes(tmp_path: Path, policy: str) -> None:
    """Whatever it remembers, on GPUs of one type."""
    setting = PLAIN if POLICIES[policy].resources else CLOUD
    require_same(tmp_path, policy, setting, CROWDED[:4])


@pytest.mark.parametrize("policy", ["synergy-tune", "gavel"])
def test_jobs_with_modes_go_on_to_the_same_bytes(tmp_path: Path, policy: str) -> None:
    """On two types of GPU with cores."""
    require_same(tmp_path, policy, TYPED)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, policy in POLICIES.items() if policy.gpu_types])
def test_every_policy_goes_on_with_modes(tmp_path: Path, policy: str) -> None:
    """Those that know types of GPU; autoscaling and pairs know no cores."""
    if policy != "gavel-packed":
        require_same(tmp_path, policy, TYPED, CROWDED[:4])


#: Replays into a folder under a policy, with a checkpoint every three rounds.
PROGRAM = """
import sys
from pathlib import Path
from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import read_workload
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster

workload, folder, policy = sys.argv[1:]
setting = Setting(Cluster.uniform(2, 4), knowledge="history")
jobs = read_workload(workload)
simulator = Simulator(jobs, profiled_applications(), make_policy(policy), setting)
Replay(simulator, Path(folder), {}, every=3).run()
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_time_goes_on_to_the_same_bytes(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """By SIGKILL, as soon as there is another checkpoint; the first two times."""
    write_workload(CROWDED, tmp_path / "jobs.csv")
    checkpoint, written, kills = tmp_path / "killed" / "checkpoint.json", 0, 0
    for folder in ("killed", "killed", "killed", "whole"):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, "-c", PROGRAM, "jobs.csv", folder, "gandiva"]
        process = subprocess.Popen(command, env=environment, cwd=tmp_path)
        while process.poll() is None:
            now = checkpoint.stat().st_mtime_ns if checkpoint.exists() else written
            if now != written and kills < 2:
                process.send_signal(signal.SIGKILL)
                written, kills = now, kills + 1
            time.sleep(0.002)
        assert process.returncode in (0, -signal.SIGKILL)
    assert kills == 2
    for name in SAME:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A folder with a checkpoint after some rounds."""
    folder = tmp_path / "interrupted"
    with pytest.raises(Killed):
        replay(folder, "tiresias", rounds=13)
    return folder


def refused(folder: Path) -> str:
    """Why a replay does not go on."""
    with pytest.raises(ValueError, match=r"\.$") as caught:
        replay(folder, "tiresias")
    text = str(caught.value)
    assert "; remove " in text
    assert "take another" in text
    assert "\n" not in text
    return text


class Malicious:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.path}'",)


def test_a_pickle_of_an_earlier_version_is_not_read(interrupted: Path) -> None:
    """Whatever else is there, and by whatever name."""
    marker = interrupted / "executed"
    content = pickle.dumps(Malicious(marker))
    (interrupted / "checkpoint.pickle").write_bytes(content)
    assert "holds 'checkpoint.pickle', which an earlier version" in refused(interrupted)
    (interrupted / "checkpoint.pickle").unlink()
    for text in (content, pickle.dumps(Malicious(marker), protocol=0)):
        (interrupted / "checkpoint.json").write_bytes(text)
        assert "checkpoint.json' cannot be read as a checkpoint" in refused(interrupted)
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists(), "it would have been"


def test_a_checkpoint_that_was_cut_short_is_refused(interrupted: Path) -> None:
    """Wherever."""
    path = interrupted / "checkpoint.json"
    whole = path.read_bytes()
    for length in [0, 1, *range(7, len(whole) - 2, len(whole) // 20)]:
        path.write_bytes(whole[:length])
        assert "cannot be read as a checkpoint" in refused(interrupted)


def test_a_checkpoint_with_another_digit_is_refused(interrupted: Path) -> None:
    """It is still JSON, and of the right keys and types."""
    path = interrupted / "checkpoint.json"
    before = path.read_text()
    path.write_text(before.replace('"time": 720', '"time": 780'))
    assert path.read_text() != before
    assert "its digest is that of another state" in refused(interrupted)


@pytest.mark.parametrize(
    ("key", "value"), [("version", 2), ("library", "0.0.1"), ("code", "0123456789ab")]
)
def test_a_checkpoint_of_another_version_is_refused(
    interrupted: Path, key: str, value: object
) -> None:
    """Of the format, of the library or of its code."""
    path = interrupted / "checkpoint.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value, "state": "any"}))
    assert "was begun by another version of goodalloc" in refused(interrupted)


def test_what_is_no_checkpoint_is_refused(interrupted: Path) -> None:
    """Depth, length, other documents, and what is no JSON."""
    deep = "[" * 200_000 + "]" * 200_000
    head = json.loads((interrupted / "checkpoint.json").read_text()) | {"state": None}
    for text in (
        deep,
        "1" * 5000,
        "{}",
        "[]",
        '{"format": "goodalloc-instance", "version": 1}',
        "NaN",
        json.dumps(head),
        json.dumps(head).replace("null", deep),
        json.dumps(head).replace("null", "1" * 5000),
        json.dumps(head).replace("null", "{}"),
    ):
        (interrupted / "checkpoint.json").write_text(text)
        assert "cannot be read as a checkpoint" in refused(interrupted)


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    """Puts a value at a place of a state."""

    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


JOB = ("simulator", "jobs", "cifar10-1")

#: What somebody may write into a state, and the complaint.
CHANGES: list[tuple[Callable[[Any], None], str]] = [
    (put("rounds", value=1), "key 'rounds' is unknown"),
    (put("sizes", "../../jobs.csv", value=1), "is unknown"),
    (put("sizes", "rounds.csv", value=-1), "size of rounds.csv is -1"),
    (put("sizes", "rounds.csv", value="1"), "size of rounds.csv is '1'"),
    (put("sizes", "rounds.csv", value=10**9), "is shorter than its checkpoint says"),
    (put("simulator", value=[]), r"Simulator is []"),
    (put("simulator", "time", value=1.5), "time is 1.5"),
    (put("simulator", "nodes", value=0), "nodes is 0"),
    (put("simulator", "nodes", value=10**30), "nodes is an integer of 100 bits"),
    (put("simulator", "progress", value="far"), "progress is 'far'"),
    (put("simulator", "experience", value={"ncf": {"gradient": [1]}}), "'times' is missing"),
    (put("simulator", "jobs", "unknown", value={}), "key 'unknown' is unknown"),
    (put(*JOB, "decide", value="os:system"), "Job 'cifar10-1': key 'decide' is unknown"),
    (put(*JOB, value=None), "Job 'cifar10-1' is null"),
    (put(*JOB, "progress", value=None), "progress is null"),
    (put(*JOB, "progress", value="1"), "progress is '1'"),
    (put(*JOB, "progress", value=10**400), "progress is 1000"),
    (put(*JOB, "progress", value=1e300), "progress is 1e+300 in epoch"),
    (put(*JOB, "epoch", value=10**6), "epoch is 1000000"),
    (put(*JOB, "restarts", value=True), "restarts is true"),
    (put(*JOB, "completion", value=1.0), "completion 1.0; expected both"),
    (put(*JOB, "gpu_type", value="../../v100"), "gpu_type is '../../v100'"),
    (put(*JOB, "mode", value=1), "mode is 1"),
    (put(*JOB, "placement", value=[[0, 99]]), "GPUs on node 0 is 99"),
    (put(*JOB, "placement", value=[[9, 1]]), "node is 9"),
    (put(*JOB, "placement", value=[[0, 1], [0, 1]]), "expected each node once"),
    (put(*JOB, "placement", value=[0]), "a part of its placement is 0"),
    (put(*JOB, "atomic_batch_size", value=0), "atomic_batch_size is 0"),
    (put(*JOB, "gradient", value=[1.0]), "expected 2 entries"),
    (put(*JOB, "measured", value={"v100": {}}), "key 'v100' is unknown"),
    (put(*JOB, "measured", "", "times", value=[[1, 1, 1, 1]]), "expected 5 entries"),
    (put(*JOB, "measured", "", "times", value=[[0, 1, 1, 1, 1]]), "a count of a row of times is 0"),
    (put(*JOB, "measured", "", "fitted", value=99), "fitted is 99"),
    (put(*JOB, "measured", "", "parameters", value="x"), "parameters is 'x'"),
    (put(*JOB, "chosen_for", value=[[1], [1], [1]]), "expected 2 entries"),
    (put("policy", value={"owners": []}), "Memory: key 'rows' is missing"),
    (put("policy", "owners", value=[]), "ValueError|shorter"),
    (put("policy", "owners", 0, 0, value="os:system"), "fields of class 'os:system' are others"),
    (put("policy", "owners", 0, 1, value="decide"), "cannot have a field 'decide'"),
    (put("policy", "owners", 0, 1, value="threshold"), "are others than may be remembered"),
    (put("policy", "owners", 0, 2, value=[99]), "row 99 is unknown"),
    (put("policy", "rows", 0, value=["object", "os:system", "a", 1]), "class 'os:system' is none"),
    (put("policy", "rows", 0, value=["object", "builtins:eval"]), "class 'builtins:eval' is none"),
    (put("policy", "rows", 0, value=["Random", "x"]), "cannot be read as a checkpoint"),
]


@pytest.mark.parametrize(("change", "complaint"), CHANGES, ids=[said for _, said in CHANGES])
def test_a_state_that_makes_no_sense_is_refused_in_one_sentence(
    interrupted: Path, change: Callable[[Any], None], complaint: str
) -> None:
    """Although its digest is right: somebody else may have written the whole file."""
    path = interrupted / "checkpoint.json"
    state = read_checkpoint(path)
    change(state)
    write_checkpoint(path, state)
    text = refused(interrupted)
    assert any(part in text for part in complaint.split("|")), text


def test_the_command_line_says_what_to_do_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the name of the policy, without a traceback, while the others are replayed."""
    write_workload(SHORT[:1], tmp_path / "workload.csv")
    command = [
        "simulate",
        str(tmp_path / "workload.csv"),
        "--policies",
        "tiresias,fifo",
        "--nodes",
        "2",
        "--no-gaps",
        "--out",
        str(tmp_path / "out"),
    ]
    (tmp_path / "out" / "tiresias").mkdir(parents=True)
    marker = tmp_path / "executed"
    (tmp_path / "out" / "tiresias" / "checkpoint.pickle").write_bytes(
        pickle.dumps(Malicious(marker))
    )
    assert main(command) == 2
    text = capsys.readouterr().out
    assert "tiresias is left out. Folder" in text
    assert "holds 'checkpoint.pickle', which an earlier version of goodalloc wrote" in text
    assert "Traceback" not in text
    assert not marker.exists()
