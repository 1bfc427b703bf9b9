"""A training as its user writes it for `goodalloc launch`; every step leaves a line in a file.

goodalloc launch --cluster cluster --name mine -- python launched_program.py EPOCHS PAUSE
"""

from __future__ import annotations

import json
import os
import sys
import time

from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.models.goodput.model import BatchLimits

EXAMPLES, TOTAL, CHECKPOINT_STEPS = 203, 16, 10


def main() -> int:
    """Train so many epochs, so many seconds a step."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    epochs, pause = int(sys.argv[1]), float(sys.argv[2])
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    inputs = torch.randn(EXAMPLES, 8)
    data = TensorDataset(inputs, (inputs[:, 0] > inputs[:, 1]).long())
    module = torch.nn.Linear(8, 2)
    agent = TrainingAgent(
        module,
        torch.optim.SGD(module.parameters(), lr=0.1),
        DataLoader(data, TOTAL),
        AgentOptions.of_launcher(
            BatchLimits(TOTAL, 64, 4, 16),
            checkpoint_steps=CHECKPOINT_STEPS,
            look_seconds=0.05,
            publish_seconds=1000.0,
        ),
    )
    first = os.environ["RANK"] == "0"
    with agent.options.file("steps.jsonl").open("a") as lines:
        for some, wanted in agent.batches(epochs):
            before = agent.steps
            agent.learn(cross_entropy(agent.module(some), wanted))
            if agent.steps == before:  # one pass of several
                continue
            if first:
                lines.write(json.dumps([os.getpid(), agent.steps, agent.examples]) + "\n")
                lines.flush()
            time.sleep(pause)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
