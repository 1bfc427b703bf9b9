"""Hyper-parameter search: real trainings, a real sampler, simulated time; Pollux's Table 3."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux import hyperparameter_search
from goodalloc.experiments.studies.pollux.hyperparameter_search import CLUSTER, Sampler, SearchTask
from goodalloc.experiments.studies.pollux.hyperparameter_table import (
    CONFIGURATIONS,
    HOURS,
    MINUTES,
    REPLICAS,
    mean_best,
    quantities,
    seconds_alone,
    trained,
    tuned_batch_size,
)
from goodalloc.experiments.studies.pollux.hyperparameter_trial import Hyperparameters, train
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.registry import make_policy
from tests.support.few import few

if TYPE_CHECKING:
    from pathlib import Path

GOOD = Hyperparameters(0.1, 0.5, 1e-4, 32)
TWO_NODES = Setting(Cluster.uniform(2, 4))


def small(folder: Path, policy: str = "fifo", **options: Any) -> SearchTask:
    """Seven trials, two at a time, on two nodes."""
    return SearchTask(
        folder, policy, concurrent=2, batch_size=512, setting=TWO_NODES, **{"trials": 7, **options}
    )


def trials_of(task: SearchTask) -> pd.DataFrame:
    """The records of a search, which is run before."""
    task.run()
    return pd.read_csv(task.folder / "trials.csv")


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The records of a search with four GPUs a trial."""
    return trials_of(small(tmp_path_factory.mktemp("search") / "fixed"))


def test_a_training_gives_the_same_accuracy_with_the_same_seed() -> None:
    """And another one with other held-out pictures; good hyper-parameters are better than bad."""
    assert train(GOOD, 0) == train(GOOD, 0)
    assert train(GOOD, 0) != train(GOOD, 1)
    assert train(GOOD, 0) > 0.9 > train(GOOD._replace(learning_rate=1e-4), 0)


def test_a_training_that_diverges_has_no_accuracy() -> None:
    """A step that is far too long is a bad trial and not an error."""
    assert train(GOOD._replace(learning_rate=1e200, weight_decay=1e200), 0) == 0.0


def test_the_sampler_learns() -> None:
    """After thirty trials whose accuracy is the width, it proposes wide networks."""
    sampler, widths = Sampler(0), []
    for trial in range(40):
        widths.append(sampler.propose().width)
        sampler.learn(trial, widths[-1])
    assert np.mean(widths[30:]) > 90 > np.mean(widths[:10])


def test_the_sampler_leaves_the_log_of_others_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed, and the level of Optuna's log is that of before."""
    import optuna

    before = optuna.logging.get_verbosity()
    Sampler(0)
    assert optuna.logging.get_verbosity() == before == logging.INFO
    assert not "".join(capsys.readouterr())


@pytest.mark.parametrize("policy", few(["fifo", "pollux"], 1))
def test_equal_seeds_give_equal_bytes(tmp_path: Path, policy: str) -> None:
    """Whatever shares the cluster."""
    one, two = (small(tmp_path / name, policy, trials=3, seed=3) for name in "ab")
    assert not trials_of(one).empty
    assert not trials_of(two).empty
    name = "trials.csv"
    assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


def test_another_seed_gives_another_search(tmp_path: Path, fixed: pd.DataFrame) -> None:
    """Other hyper-parameters, other pictures held out, other moments of submission."""
    other = trials_of(small(tmp_path / "other", seed=1))
    for column in ("learning_rate", "accuracy", "submission"):
        assert other[column].tolist() != fixed[column].tolist()


def test_every_trial_is_trained_once_and_a_finished_search_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven trainings for seven trials, in the order in which the trials end."""
    trained = []

    def noted(hyperparameters: Hyperparameters, seed: int) -> float:
        trained.append(hyperparameters.learning_rate)
        return train(hyperparameters, seed)

    monkeypatch.setattr(hyperparameter_search, "train", noted)
    task = small(tmp_path / "search")
    task.run()
    found = trials_of(task)
    assert len(set(trained)) == len(trained) == len(found) == 7
    assert trained == pytest.approx(found.sort_values("completion").learning_rate.tolist())


def test_no_more_trials_than_allowed_are_there_at_a_time(fixed: pd.DataFrame) -> None:
    """Each one is submitted when another one ends, to the second; the first at random moments."""
    for time in fixed.submission:
        assert ((fixed.submission <= time) & (time < fixed.completion)).sum() <= 2
    ends = set(np.ceil(fixed.completion))
    assert all(time in ends for time in fixed.submission[2:])
    assert fixed.submission[0] == 0 < fixed.submission[1] <= 600


def test_a_fixed_trial_holds_its_four_gpus_from_start_to_end(fixed: pd.DataFrame) -> None:
    """Its restart delay included, and it never restarts."""
    assert (fixed.restarts == 0).all()
    held = 4 * (fixed.completion - fixed.start + TWO_NODES.restart_delay)
    assert fixed.gpu_seconds.to_numpy() == pytest.approx(held.to_numpy())


def test_the_sampler_knows_what_has_ended_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has learned of a trial, when it proposes one, exactly if that ended by then."""
    calls: list[int | None] = []
    propose, learn = Sampler.propose, Sampler.learn

    def proposes(self: Sampler) -> Hyperparameters:
        calls.append(None)
        return propose(self)

    def learns(self: Sampler, trial: int, accuracy: float) -> None:
        calls.append(trial)
        learn(self, trial, accuracy)

    monkeypatch.setattr(Sampler, "propose", proposes)
    monkeypatch.setattr(Sampler, "learn", learns)
    found = trials_of(small(tmp_path / "search"))
    known: set[int] = set()
    proposed = 0
    for call in calls:
        if call is not None:
            known.add(call)
            continue
        ended = found.trial[np.ceil(found.completion) <= found.submission[proposed]]
        assert known == set(ended)
        proposed += 1
    assert proposed == len(known) == 7


@pytest.mark.parametrize("library", ["optuna", "sklearn"])
def test_a_missing_library_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """One sentence that names the extra, from the task and from the table; nothing is written."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == library else find(name)
    )
    with pytest.raises(ValueError, match=r"goodalloc\[search\]"):
        small(tmp_path / "search").run()
    with pytest.raises(ValueError, match=r"goodalloc\[search\]"):
        REPRODUCTIONS["table3"].require(Plan(tmp_path / "table"))
    assert not list(tmp_path.iterdir())


def test_the_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    """So that no records are taken for those of something else."""
    task = SearchTask(tmp_path, "fifo", trials=1)
    task.run()
    with pytest.raises(ValueError, match="holds another"):
        replace(task, seed=1).run()


@pytest.mark.parametrize("field", ["trials", "concurrent"])
def test_a_search_of_nothing_is_refused(tmp_path: Path, field: str) -> None:
    """At least one trial, and at least one at a time."""
    options: dict[str, Any] = {field: 0}
    with pytest.raises(ValueError, match=f"Search: {field}"):
        SearchTask(tmp_path, "fifo", **options)


def test_the_tuned_batch_size_is_the_quickest_of_the_doublings() -> None:
    """Replayed on a node of its own; the replay adds what it adds to all of them."""
    application = profiled_applications()["cifar10"]
    tuned = tuned_batch_size(application)

    def completion(batch_size: int) -> float:
        job = Submission("alone", 0, "cifar10", 4, batch_size)
        policy = make_policy("fifo")
        simulator = Simulator(
            (job,), profiled_applications(), policy, Setting(Cluster.uniform(1, 4))
        )
        while not simulator.finished:
            simulator.step()
        (end,) = (job.completion for job in simulator.jobs)
        assert end is not None
        return end

    assert min((128, 256, 512, 1024, 2048, 4096), key=completion) == tuned


def test_a_table_has_a_search_for_every_configuration_policy_and_seed(tmp_path: Path) -> None:
    """Each in a folder of its own; quick ones have thirty trials."""
    plan = Plan(tmp_path, workloads=(1, 2, 3), pollux=("pollux", "pollux-genetic"), quick=True)
    tasks = [task for task in REPRODUCTIONS["table3"].tasks(plan) if isinstance(task, SearchTask)]
    assert len({task.folder for task in tasks}) == len(tasks) == 3 * (2 + 2 + 1 + 1)
    assert {task.trials for task in tasks} == {30}
    assert {task.seed for task in tasks} == {1, 2, 3}
    for task in tasks:
        (group,) = task.setting.cluster.groups
        assert (group.nodes, group.gpus, group.gpu_type, task.traces) == (2, 8, "a100", None)
    assert {task.batch_size for task in tasks if task.policy == "fifo"} == {128, 4096}


def test_a_table_puts_published_and_ours_side_by_side(tmp_path: Path) -> None:
    """From made-up records: means, ratios seed by seed, and the curve of the best so far."""
    plan = Plan(tmp_path, workloads=(1, 2))
    for configuration in CONFIGURATIONS:
        (policy,) = plan.policies_of(configuration.policy)
        for task in configuration.tasks(plan, policy):
            task.folder.mkdir(parents=True)
            hour = 3600 * task.seed * (1 if policy == "pollux" else 2)
            pd.DataFrame(
                {
                    "trial": [0, 1, 2],
                    "accuracy": [0.5, 0.9, 0.7],
                    "seconds": [hour] * 3,
                    "completion": [hour, 2 * hour, 3 * hour],
                }
            ).to_csv(task.folder / "trials.csv")
    reproduction = REPRODUCTIONS["table3"]
    rows = {(row.configuration, row.quantity): row for row in reproduction.rows(plan)}
    assert rows["Pollux", MINUTES].ours == 90
    assert rows["Pollux", MINUTES].published == 25
    assert rows["Pollux", HOURS].ours == 4.5
    assert rows["fixed, tuned batch", HOURS].ours == 9
    ratio = rows["Pollux / fixed, tuned batch", HOURS]
    assert (ratio.ours, ratio.half_width, ratio.searches) == (0.5, 0.0, 2)
    assert ratio.published == pytest.approx(10 / 14, abs=1e-3)
    alone = rows["fixed alone, batch 128", MINUTES]
    assert (alone.published, alone.searches) == (34, 0)
    assert rows["Pollux / fixed alone, batch 128", MINUTES].ours == pytest.approx(
        90 / alone.ours, rel=1e-3
    )
    folders = [task.folder for task in CONFIGURATIONS[0].tasks(plan, "pollux")]
    hours, best = mean_best(folders)
    assert (hours[0], hours[-1]) == (2.0, 6.0)
    assert (best[0], best[-1]) == pytest.approx((70.0, 90.0))
    assert reproduction.plot(plan, []).axes[0].get_xlabel().startswith("time (h)")


def test_the_minutes_of_a_fixed_trial_alone_are_those_of_its_replay() -> None:
    """On the published A100, but for the minute that a job waits for the first round."""
    for size in (128, 4096):
        job = Submission("alone", 0, "cifar10", REPLICAS, size)
        simulator = Simulator((job,), profiled_applications(), make_policy("fifo"), CLUSTER)
        while not simulator.finished:
            simulator.step()
        (end,) = (job.completion for job in simulator.jobs)
        assert end == pytest.approx(seconds_alone(trained(), REPLICAS, size) + 30.0 + 60.0)


def test_quantities_are_those_of_the_five_best(tmp_path: Path) -> None:
    """Of six trials the worst is left out of the accuracy and counts in the times."""
    pd.DataFrame(
        {
            "accuracy": [0.9, 0.8, 0.9, 0.8, 0.1, 0.85],
            "seconds": [60] * 6,
            "completion": [60, 60, 60, 120, 120, 7200],
        }
    ).to_csv(tmp_path / "trials.csv")
    found = quantities(SearchTask(tmp_path, "fifo"))
    assert list(found.values()) == pytest.approx([85.0, 1.0, 2.0])
