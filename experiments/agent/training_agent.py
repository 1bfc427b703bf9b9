r"""Agent that adapts the training of a network to its allocation, as in Pollux (PyTorch).

Every job of Pollux has an agent (section 4.1) that measures gradient noise and the seconds of
steps, fits the throughput model, adapts batch size and learning rate to the allocation, and reports
to the scheduler. `TrainingAgent` wraps module, optimiser and data loader of a training loop. Every
iteration is one pass of m examples on this replica; every (s + 1)-th pass ends a step. The loss is
a mean over the examples. If the process group of `torch.distributed` is initialised, its processes
are the replicas, each of which runs the same program.

After every step the gradient statistics are updated (`models/adaptation/gradient_noise.py`), the
learning rate is scaled for this step by its rule (a scheduler of the user still sets the rate tuned
for M0), and progress grows by the gain of AdaScale. The batch rule decides at the beginning, after
a change of the number of replicas, and every `decision_steps`. Every `publish_seconds` the first
replica collects the last fit, requests the next one, and writes the state of the job
(`data/files/job_state.py`). When the allocation file has another placement for the job, all
replicas write a checkpoint and end with `EXIT_REALLOCATED`; their launcher starts the new number of
replicas, which continue from the checkpoint with the next example of the same order. A killed job
loses the steps since its last checkpoint. In one process, with a rule that does not depend on
measured seconds, an interrupted job ends with the same bytes as an uninterrupted one. Passes are
timed on the clock of the device (`device_clock.py`); the host waits for a GPU once per step.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020
"""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.agent.checkpoint import (
    load_checkpoint,
    random_states,
    restore_random,
    save_checkpoint,
    seed_random,
)
from goodalloc.experiments.agent.cluster_folder import CHECKPOINT
from goodalloc.experiments.agent.example_order import batches_of, order_of
from goodalloc.experiments.agent.gradient_meter import GradientMeter, estimate_of
from goodalloc.experiments.agent.options import DOUBLE, EXIT_REALLOCATED, ROUNDING
from goodalloc.experiments.agent.pass_times import Configuration
from goodalloc.experiments.agent.replicas import Replicas
from goodalloc.experiments.agent.report import AgentReport
from goodalloc.experiments.agent.scaling import decide_batch, rescaled, scaled_step
from goodalloc.experiments.agent.step_clock import StepClock
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.adaptation.batch_rules import Situation
from goodalloc.models.adaptation.gradient_noise import GradientAverage, averaged, statistics_of
from goodalloc.models.adaptation.learning_rate import learning_rate_factor
from goodalloc.models.goodput.batch_split import BatchChoice, split_batch
from goodalloc.models.goodput.model import only_batch_size
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from goodalloc.experiments.agent.options import AgentOptions
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics


class TrainingAgent:
    """Agent that adapts batch size and learning rate to a job and its allocation.

    Parameters
    ----------
    module
        The network, not wrapped; `agent.module` is to be called in its place.
    optimiser
        Optimiser of its parameters, with the learning rate tuned for M0.
    loader
        Loader that determines the data set, its collation and the number of processes; its batch
        size is M0 if the options have no limits. The agent shuffles the examples itself.
    options
        The other options.
    companions
        Further objects with a state that is part of the checkpoint, by name: a scheduler, say.

    Raises
    ------
    ValueError
        If a learning rate is negative, no parameter requires a gradient, the loader has a sampler
        of its own, there are more nodes than replicas, or the checkpoint cannot be read or is of
        another job or module.

    Examples
    --------
    >>> import torch
    >>> from goodalloc.experiments import AgentOptions, TrainingAgent
    >>> module = torch.nn.Linear(4, 1)
    >>> optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
    >>> agent = TrainingAgent(module, optimiser, loader, AgentOptions("a", "job"))
    >>> for batch in agent.batches(epochs=1):
    ...     agent.learn(agent.module(batch).square().mean())
    >>> agent.steps, agent.epoch
    (8, 1)
    """

    def __init__(
        self,
        module: Any,
        optimiser: Any,
        loader: Any,
        options: AgentOptions,
        companions: Mapping[str, Any] | None = None,
    ) -> None:
        require_extra("measure", "A training agent")
        for group in optimiser.param_groups:
            require_number("Optimiser: learning rate", group["lr"], 0.0)
        self.options, self.optimiser, self._plain = options, optimiser, module
        self._item = f"Training agent of '{options.name}'"
        self._companions = dict(companions or {})
        self._replicas = Replicas()
        self._meter = GradientMeter(
            optimiser, self._replicas.count, options.most_coordinates, options.seed
        )
        self.loader, self._order = loader, order_of(loader, options.seed)
        self.batch = options.batch or only_batch_size(loader.batch_size)
        self.choice = split_batch(float(self.batch.initial), self._replicas.count, self.batch)
        self.report = AgentReport(options, self._replicas.count)
        self._average = GradientAverage()
        self.steps = self.examples = 0
        self.progress, self.loss = 0.0, math.nan
        self._restore_random: Callable[[], None] | None = None
        self._asked = self._resume()
        self.module = self._replicas.wrap(module, self._meter.hook)
        self._passes_made, self._waiting, self._stale = 0, False, self.report.stale
        self._loss: Any = 0.0
        self._rate = float(max(one["lr"] for one in optimiser.param_groups))
        self._clock = StepClock(self._meter.clock, self.steps)

    @property
    def gradient(self) -> GradientStatistics | None:
        """Gradient statistics; None before the first measurement."""
        return statistics_of(self._average)

    @property
    def epoch(self) -> int:
        """Number of complete passes through the data."""
        return self.examples // self._order.examples

    @property
    def total(self) -> int:
        """Total batch size M, the examples of a step."""
        return self.choice.total(self._replicas.count)

    def batches(self, epochs: int) -> Iterator[Any]:
        """Generate the batches of the loader, one per pass, until the end of an epoch.

        Parameters
        ----------
        epochs
            Passes through the data, including those before a restart.

        Raises
        ------
        ValueError
            If `epochs` < 1, or `learn` was not called for the batch before.
        SystemExit
            With `EXIT_REALLOCATED`, if there is another allocation.
        """
        require_count(f"{self._item}: epochs", epochs, 1)
        if self._restore_random is not None:
            self._restore_random()
            self._restore_random = None
        if self._replicas.agree(self._stale):
            self._leave()
        if not self._asked:
            self._decide()
            self._asked = True
        self._clock.begin()
        while self.epoch < epochs:
            choice = self.choice
            for batch in self._loaded():
                if self._passes_made == 0:
                    every = self.options.measure_steps
                    measured = self.steps % every == 0, (self.steps + 1) % every == 0
                    self._meter.begin(choice.accumulation_steps + 1, *measured)
                    self._clock.begin_step()
                    self._loss = 0.0
                self._replicas.exchange(self._passes_made == choice.accumulation_steps)
                self._waiting = True
                yield batch
                if self._waiting:
                    raise ValueError(f"{self._item}: a batch was not learnt; expected `learn`.")
                if self._passes_made == 0 and (self.epoch >= epochs or self.choice != choice):
                    break
        self._end(finished=True)

    def finish(self) -> None:
        """End the training before `batches` ends; all replicas must call this."""
        self._end(finished=True)

    def _loaded(self) -> Iterator[Any]:
        """Generate batches of m examples of this replica from the present position, endlessly."""
        passes = self._order.passes(
            self.examples, self.choice.atomic, self._replicas.count, self._replicas.rank
        )
        return batches_of(self.loader, passes, self.options.seed + self.examples)

    def learn(self, loss: Any) -> None:
        """Compute the gradient of the loss of a batch; make a step after its last pass.

        Parameters
        ----------
        loss
            Mean loss of the batch, a tensor of one number.

        Raises
        ------
        ValueError
            If there is no batch that was not learnt.
        SystemExit
            With `EXIT_REALLOCATED`, if there is another allocation.
        """
        if not self._waiting:
            raise ValueError(
                f"{self._item}: nothing to learn; expected a batch of `batches` first."
            )
        self._waiting = False
        passes = self.choice.accumulation_steps + 1
        last = self._passes_made + 1 == passes
        (loss if passes == 1 else loss / passes).backward()
        exchanged = last and self._replicas.several
        exchange = (self._meter.computed, self._meter.clock.mark()) if exchanged else None
        if not exchanged:
            self._meter.take_pass()
        self._loss = self._loss + loss.detach()
        self._passes_made += 1
        if last:
            self._passes_made = 0
            self._step()
        self._clock.end()
        if last:
            where = Configuration(self.report.nodes, self._replicas.count, self.choice.atomic)
            for one in self._clock.end_step(where, self.steps, exchange):
                self.report.times.record(*one)
            self._between_steps()
            self._clock.begin()

    @contextlib.contextmanager
    def untimed(self) -> Iterator[None]:
        """Exclude the body, between two batches, from the time of a step: an evaluation, say."""
        yield
        self._clock.begin()

    def _step(self) -> None:
        """Make a step: update statistics, learning rate, parameters and progress."""
        total, scale = self.total, self.total / float(self.batch.initial)
        self._measure(scale)
        gradient, rule = self.gradient, self.options.learning_rate
        initial = int(self.batch.initial)
        gain = learning_rate_factor("adascale", gradient, initial, total)
        own = gain if rule == "adascale" else learning_rate_factor(rule, gradient, initial, total)
        self._rate = scaled_step(self.optimiser, self.choice.rate_factor * own)
        self.steps, self.examples = self.steps + 1, self.examples + total
        self.progress += gain
        self._meter.refresh(self.steps)

    def _measure(self, scale: float) -> None:
        """Sum the measurements of the replicas in one message, and update the averages."""
        norms = self._meter.finish()
        local, *own = (0.0,) if norms is None else norms
        wish = self._replicas.first and self.report.look()
        shared, own = self._replicas.added(
            [local, self._loss, float(wish)], [one for one in own if one is not None]
        )
        count = self._replicas.count * (self.choice.accumulation_steps + 1)
        self.loss, self._stale = shared[1] / count, shared[2] > 0.0
        if norms is None:
            return
        estimate = estimate_of(shared[0], own, count, scale)
        if estimate is not None:
            self._average = averaged(self._average, estimate, scale, self.options.decay)

    def _between_steps(self) -> None:
        """Decide, leave, write a checkpoint or publish, if it is due."""
        if self.steps % self.options.decision_steps == 0:
            self._decide()
        if self._stale:
            self._leave()
        if self.steps % self.options.checkpoint_steps == 0:
            self.save()
        if self._replicas.first and self.report.due:
            self._publish()

    def _decide(self) -> None:
        """Take the decision of the batch rule on the first replica, for all replicas."""
        found = self.choice
        if self._replicas.first:
            situation = Situation(
                nodes=self.report.nodes,
                replicas=self._replicas.count,
                present=self.choice,
                batch=self.batch,
                epoch=self.epoch,
                learning_rate=self._rate,
                loss=self.loss,
                gradient=self.gradient,
                throughput=self.report.believed,
            )
            most = DOUBLE * self.total if self._unsettled else math.inf
            found = decide_batch(self.options.batch_rule, situation, most)
        atomic, accumulation, factor = self._replicas.told(found)
        found = BatchChoice(int(atomic), int(accumulation), factor)
        if found != self.choice:
            self._meter.forget()
            self._clock.warm_up(self.steps)
            self.choice = found

    @property
    def _unsettled(self) -> bool:
        """Whether there are statistics, of fewer than `settling_steps` steps."""
        settled = 1.0 - self.options.decay**self.options.settling_steps
        return 0.0 < self._average.weight < settled * (1.0 - ROUNDING)

    def _publish(self, *, finished: bool = False) -> None:
        """Write the state of the job."""
        self.report.publish(
            self.batch,
            atomic=self.choice.atomic,
            gradient=self.gradient,
            steps=self.steps,
            accumulation_steps=self.choice.accumulation_steps,
            examples=self.examples,
            epoch=self.epoch,
            scale_invariant_steps=self.progress,
            finished=finished,
        )

    def _end(self, *, finished: bool = False) -> None:
        """Write a checkpoint, and publish the state."""
        self.save()
        if self._replicas.first:
            self._publish(finished=finished)
        self.report.close()

    def _leave(self) -> None:
        """End, in order to be restarted on another allocation."""
        self._end()
        self._replicas.close()
        raise SystemExit(EXIT_REALLOCATED)

    def save(self) -> None:
        """Write a checkpoint, the first replica for all."""
        everybody = self._replicas.gathered(random_states())
        if self._replicas.first:
            save_checkpoint(
                self.options.file(CHECKPOINT),
                {
                    "name": self.options.name,
                    "parameters": self._meter.shapes,
                    "replicas": self._replicas.count,
                    "module": self._plain.state_dict(),
                    "optimiser": self.optimiser.state_dict(),
                    "companions": {n: one.state_dict() for n, one in self._companions.items()},
                    "random": everybody,
                    "meter": self._meter.state(),
                    "average": [*self._average],
                    "report": self.report.state(),
                    "choice": [*self.choice],
                    "counts": [self.steps, self.examples, self.progress, self.loss],
                },
            )
        self._replicas.wait()

    def _resume(self) -> bool:
        """Resume from the checkpoint, if there is one; return whether its batch size is kept."""
        path, name = self.options.file(CHECKPOINT), self.options.name
        found = load_checkpoint(path, name, self._meter.shapes, self._companions)
        if found is None:
            return False
        self._plain.load_state_dict(found["module"])
        self.optimiser.load_state_dict(found["optimiser"])
        for name, one in self._companions.items():
            one.load_state_dict(found["companions"][name])
        self.report.load(found["report"])
        self._average = GradientAverage(*found["average"])
        self.steps, self.examples, self.progress, self.loss = found["counts"]
        self.choice = BatchChoice(*found["choice"])
        self._meter.load(found["meter"])
        rank = self._replicas.rank
        if found["replicas"] == self._replicas.count:
            self._restore_random = partial(restore_random, found["random"][rank])
            return True
        self._meter.forget()
        self._restore_random = partial(seed_random, (self.options.seed, self.steps, rank))
        total = float(self.choice.total(found["replicas"]))
        self.choice = rescaled(self.choice, total, self._replicas.count, self.batch)
        return False
