"""A small network that learns scikit-learn's digits as an elastic job, under `goodalloc launch`.

    goodalloc launch --cluster CLUSTER --name mine -- \
        python -m goodalloc.experiments.elastic_job convolutional 0 1.0

trains under an agent with batch sizes of the best goodput, learning rates by AdaScale, until it
made so many scale-invariant steps (those that M0 would have taken), wherever it runs meanwhile. So
the work is the same for every allocation, as far as the agent's estimate of the statistical
efficiency holds: the accuracy at the end, on examples that are never trained on, says whether it
does. The three networks differ in what a second replica is worth to them: one computes, one hardly
does anything, one is mostly parameters that have to be exchanged.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.json_file import dump, write_atomically
from goodalloc.experiments.agent_options import AgentOptions
from goodalloc.experiments.training_agent import TrainingAgent
from goodalloc.models.batch_rules import GoodputBatch
from goodalloc.models.goodput import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

#: M0 to M_max, and m.
LIMITS = BatchLimits(32, 512, 8, 256, True)

#: Of the 1,797 digits so many are left for the validation.
VALIDATION = 360

#: What a job says at its end, in its folder.
OUTCOME = "outcome.json"

#: More passes through the data than any job takes.
EPOCHS = 1_000_000


class ElasticNetwork(NamedTuple):
    """What is trained, and for how long.

    Attributes
    ----------
    learning_rate
        At M0, with a momentum of 0.9.
    steps
        Scale-invariant steps to the end, of a whole job.
    """

    learning_rate: float
    steps: float


NETWORKS: dict[str, ElasticNetwork] = {
    "convolutional": ElasticNetwork(0.01, 3500.0),
    "perceptron": ElasticNetwork(0.01, 40_000.0),
    "wide": ElasticNetwork(0.01, 3000.0),
}


class Digits(NamedTuple):
    """Inputs of shape (examples, 1, 8, 8), 0 to 1, and classes: to train on, and others."""

    inputs: Any
    classes: Any
    validation_inputs: Any
    validation_classes: Any


def layers(name: str) -> Any:
    """A network with PyTorch's usual initial weights."""
    from torch import nn

    if name == "convolutional":
        return nn.Sequential(
            nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 96, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96 * 16, 10),
        )  # fmt: skip
    hidden = {"perceptron": 128, "wide": 1024}[name]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, 10),
    )  # fmt: skip


def digits() -> Digits:
    """The same split every time."""
    import torch
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    inputs = torch.tensor(found.images / 16.0).float().unsqueeze(1)
    classes = torch.tensor(found.target)
    order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(0))
    some, others = order[VALIDATION:], order[:VALIDATION]
    return Digits(inputs[some], classes[some], inputs[others], classes[others])


def main(argv: Sequence[str] | None = None) -> int:
    """Train a network, by a seed, for a share of its steps.

    Parameters
    ----------
    argv
        Those three; the arguments of the process if None.
    """
    name, seed, share = sys.argv[1:] if argv is None else argv
    options = AgentOptions.of_launcher(
        LIMITS, batch_rule=GoodputBatch(), seed=int(seed), decision_steps=50,
        checkpoint_steps=500, publish_seconds=2.0, look_seconds=0.5,
    )  # fmt: skip
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    network, data = NETWORKS[name], digits()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    module = layers(name)
    agent = TrainingAgent(
        module, torch.optim.SGD(module.parameters(), network.learning_rate, momentum=0.9),
        DataLoader(TensorDataset(data.inputs, data.classes), int(LIMITS.initial)), options,
    )  # fmt: skip
    target = float(share) * network.steps
    for inputs, classes in agent.batches(EPOCHS):
        agent.learn(cross_entropy(agent.module(inputs), classes))
        if agent.progress >= target:
            agent.finish()
            break
    with torch.no_grad():
        right = module(data.validation_inputs).argmax(dim=1) == data.validation_classes
    if os.environ["RANK"] == "0":
        outcome = {
            "accuracy": right.double().mean().item(), "steps": agent.steps,
            "examples": agent.examples, "progress": agent.progress, "batch_size": agent.total,
        }  # fmt: skip
        write_atomically(agent.options.file(OUTCOME), dump(outcome) + "\n")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
