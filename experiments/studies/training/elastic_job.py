"""Small network that learns scikit-learn's digits as an elastic job, under `goodalloc launch`.

    goodalloc launch --cluster CLUSTER --name mine -- \
        python -m goodalloc.experiments.studies.training.elastic_job convolutional 0 1.0

trains under an agent with batch sizes of the best goodput and learning rates by AdaScale, for a
number of scale-invariant steps (those that M0 would have taken) on any allocations. The work is
thus the same for every allocation if the agent's estimate of the statistical efficiency is right,
which the accuracy on validation examples checks at the end. The three networks differ in the gain
from a second replica: one computes much, one little, and one mostly exchanges parameters.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.experiments.studies.training.digits_training import convolutional, digits, perceptron
from goodalloc.models.adaptation.batch_rules import GoodputBatch
from goodalloc.models.goodput.model import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Limits of the total (M0 to M_max) and of the atomic batch size.
LIMITS = BatchLimits(32, 512, 8, 256, True)

#: Learning rate at M0, and momentum.
RATE, MOMENTUM = 0.01, 0.9

#: Name of the file of a job's outcome, in its folder.
OUTCOME = "outcome.json"

#: Most epochs, more than any job takes.
EPOCHS = 1_000_000


class ElasticNetwork(NamedTuple):
    """Network and length of a training.

    Attributes
    ----------
    steps
        Scale-invariant steps of a whole job.
    neurons
        Neurons of the hidden layers of a perceptron; empty for convolutions.
    channels
        Channels of the two convolutions; empty for a perceptron.
    """

    steps: float
    neurons: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()

    def module(self) -> Any:
        """Return the network with PyTorch's usual initial weights."""
        return convolutional(*self.channels) if self.channels else perceptron(self.neurons)


#: The networks by name.
NETWORKS: dict[str, ElasticNetwork] = {
    "convolutional": ElasticNetwork(3000.0, channels=(64, 96)),
    "perceptron": ElasticNetwork(40_000.0, neurons=(128, 128)),
    "wide": ElasticNetwork(3000.0, neurons=(1024, 1024)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train a network, by a seed, for a share of its steps.

    Parameters
    ----------
    argv
        Name of the network, seed and share; None for the arguments of the process.
    """
    name, seed, share = sys.argv[1:] if argv is None else argv
    options = AgentOptions.of_launcher(
        LIMITS,
        batch_rule=GoodputBatch(),
        seed=int(seed),
        decision_steps=50,
        checkpoint_steps=500,
        publish_seconds=2.0,
        look_seconds=0.5,
    )
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    network, (learnt, kept) = NETWORKS[name], digits(0)
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    module = network.module()
    agent = TrainingAgent(
        module,
        torch.optim.SGD(module.parameters(), RATE, MOMENTUM),
        DataLoader(TensorDataset(*learnt), int(LIMITS.initial)),
        options,
    )
    target = float(share) * network.steps
    for inputs, classes in agent.batches(EPOCHS):
        agent.learn(cross_entropy(agent.module(inputs), classes))
        if agent.progress >= target:
            agent.finish()
            break
    with torch.no_grad():
        right = module(kept[0]).argmax(dim=1) == kept[1]
    if os.environ["RANK"] == "0":
        outcome = {
            "accuracy": right.double().mean().item(),
            "steps": agent.steps,
            "examples": agent.examples,
            "progress": agent.progress,
            "batch_size": agent.total,
        }
        write_atomically(agent.options.file(OUTCOME), dump(outcome) + "\n")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
