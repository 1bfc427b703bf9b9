"""A job that an agent trains, as a program: the tests start it, kill it and start it again.

    python agent_program.py '[{"folder": "job", "epochs": 2, ...}]'

prints what came out of each job as JSON. Where RANK is set it is one of several replicas on gloo.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.models.adaptation.batch_rules import BATCH_RULES, AdaBatch
from goodalloc.models.goodput.model import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMITS = BatchLimits(16, 256, 4, 64, True)


def job(
    folder: str,
    optimiser: str = "sgd",
    rate: float = 0.1,
    batch_rule: str = "fixed",
    learning_rate: str = "adascale",
    limits: Sequence[Any] = LIMITS,
    *,
    dropout: float = 0.1,
    **options: Any,
) -> TrainingAgent:
    """An agent around a small network with dropout, and examples made up."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(1)
    inputs = torch.randn(203, 8)
    classes = (inputs[:, 0] > inputs[:, 1]).long()
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    rules = BATCH_RULES | {"adabatch": AdaBatch(1)}
    return TrainingAgent(
        module,
        kinds[optimiser](module.parameters(), lr=rate),
        DataLoader(TensorDataset(inputs, classes), batch_size=16),
        AgentOptions(
            "mine", folder, BatchLimits(*limits), rules[batch_rule], learning_rate, **options
        ),
    )


def cross_entropy(agent: TrainingAgent, inputs: Any, classes: Any) -> Any:
    """Mean loss of a batch."""
    from torch.nn.functional import cross_entropy as mean_loss

    return mean_loss(agent.module(inputs), classes)


def train(agent: TrainingAgent, epochs: int, kill_at: int = -1) -> dict[str, Any]:
    """Train, and say what came out; killed by its own hand after so many steps."""
    for inputs, classes in agent.batches(epochs):
        agent.learn(cross_entropy(agent, inputs, classes))
        if agent.steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    weights = b"".join(one.detach().numpy().tobytes() for one in agent.module.parameters())
    return {
        "weights": hashlib.sha256(weights).hexdigest(),
        "steps": agent.steps,
        "examples": agent.examples,
        "progress": agent.progress,
        "loss": agent.loss,
        "gradient": agent.gradient,
        "choice": agent.choice,
        "restarts": agent.report.restarts,
        "throughput": agent.report.throughput,
    }


def main() -> int:
    """Train what the argument says."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    found = []
    for given in json.loads(sys.argv[1]):
        epochs, kill_at = given.pop("epochs"), given.pop("kill_at", -1)
        found.append(train(job(**given), epochs, kill_at))
    sys.stdout.write(json.dumps(found) + "\n")
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
