r"""An agent beside the training of a network, as Pollux has one in every job (PyTorch).

Pollux (OSDI'21, section 4.1) gives every job an agent that measures gradient noise and the seconds
of steps, fits the throughput model, sets batch size and learning rate to the allocation, and
reports to the scheduler. `TrainingAgent` is one, around module, optimiser and data loader::

    agent = TrainingAgent(module, optimiser, loader, AgentOptions("digits", "job"))
    for inputs, classes in agent.batches(epochs=20):
        agent.learn(cross_entropy(agent.module(inputs), classes))

Every turn of the loop is one pass of m examples on this replica; every (s + 1)-th ends a step. The
loss is a mean over the examples. Where the process group of `torch.distributed` is up, its
processes are the replicas and each runs the same program.

After every step the gradient statistics are brought up to date
(`models/adaptation/gradient_noise.py`), the learning rate is scaled for this step by its rule (a
scheduler of the user's sets the one tuned for M0 as ever), and progress grows by AdaScale's gain.
The batch rule is asked at the beginning, on another number of replicas, and every `decision_steps`.
Every `publish_seconds` the first replica takes in the last fit, asks for the next one, and writes
the job's state (`data/files/job_state.py`). When the allocation file gives the job something else
than it runs on, all replicas make a checkpoint and end with `EXIT_REALLOCATED`; their launcher
starts as many as it says, and each goes on from the checkpoint, with the next example of the same
order. Killed, a job loses the steps since its last checkpoint. In one process, with a rule that
does not go by measured seconds, a job that was interrupted ends with the same bytes as one that was
not.

On an accelerator a pass is timed as the program meets it, waiting for the device once a step.
"""

from __future__ import annotations

import contextlib
import math
import time
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
from goodalloc.experiments.agent.step_clock import StepClock
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.adaptation.batch_rules import Situation
from goodalloc.models.adaptation.batch_split import BatchChoice, split_batch
from goodalloc.models.adaptation.gradient_noise import GradientAverage, averaged, statistics_of
from goodalloc.models.adaptation.learning_rate import learning_rate_factor
from goodalloc.models.goodput.model import only_batch_size
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from goodalloc.experiments.agent.options import AgentOptions
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics


class TrainingAgent:
    """Trains with batch sizes and learning rates that suit the job and its allocation.

    Parameters
    ----------
    module
        The network, not wrapped; call `agent.module` in its place.
    optimiser
        Of its parameters, with the learning rate tuned for M0.
    loader
        Gives the data set, how it is collated and by how many processes; its batch size is M0 where
        the options have no limits. The agent draws the order itself, shuffled.
    options
        Everything else.
    companions
        Other things with a state that goes into the checkpoint, by name: a scheduler, say.

    Raises
    ------
    ValueError
        If anything makes no sense, or the checkpoint cannot be read or is of something else.
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
        self.options, self._optimiser, self._plain = options, optimiser, module
        self._item = f"Training agent of '{options.name}'"
        self._companions = dict(companions or {})
        self._replicas = Replicas()
        self._meter = GradientMeter(
            optimiser, self._replicas.count, options.most_coordinates, options.seed
        )
        self._loader, self._order = loader, order_of(loader, options.seed)
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
        self._clock = StepClock(self.steps)

    @property
    def gradient(self) -> GradientStatistics | None:
        """Gradient statistics; None before there are any."""
        return statistics_of(self._average)

    @property
    def epoch(self) -> int:
        """Whole passes through the data."""
        return self.examples // self._order.examples

    @property
    def total(self) -> int:
        """M, the examples of a step."""
        return self.choice.total(self._replicas.count)

    def batches(self, epochs: int) -> Iterator[Any]:
        """What the loader gives, a pass at a time, until so many epochs are over in all.

        Parameters
        ----------
        epochs
            Passes through the data, those before a restart included.

        Raises
        ------
        ValueError
            If `learn` was not called for what came before.
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
        """Say that the training is over, though `batches` is not; all replicas do, and leave it."""
        self._end(finished=True)

    def _loaded(self) -> Iterator[Any]:
        """Batches of m examples of this replica, from where training is, without end."""
        passes = self._order.passes(
            self.examples, self.choice.atomic, self._replicas.count, self._replicas.rank
        )
        return batches_of(self._loader, passes, self.options.seed + self.examples)

    def learn(self, loss: Any) -> None:
        """Take the gradient of the loss of a batch; with the last pass of a step, make the step.

        Parameters
        ----------
        loss
            Mean loss of the batch, a tensor of one number.

        Raises
        ------
        ValueError
            If there is no batch to learn.
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
        waited = time.perf_counter() - self._meter.computed if exchanged else 0.0
        if not exchanged:
            self._meter.take_pass()
        self._loss = self._loss + loss.detach()
        self._passes_made += 1
        if last:
            self._passes_made = 0
            self._step()
        self._clock.end()
        if last:
            seconds = self._clock.passes(self.steps, waited)
            if seconds is not None:
                where = Configuration(self.report.nodes, self._replicas.count, self.choice.atomic)
                self.report.times.record(where, *seconds)
            self._between_steps()
            self._clock.begin()

    @contextlib.contextmanager
    def untimed(self) -> Iterator[None]:
        """What is done within, between two batches (an evaluation, say), is no part of a step."""
        yield
        self._clock.begin()

    def _step(self) -> None:
        """Statistics, learning rate, the optimiser's step, progress."""
        total, scale = self.total, self.total / self.batch.initial
        self._measure(scale)
        gradient, groups = self.gradient, self._optimiser.param_groups
        rule = self.options.learning_rate
        gain = learning_rate_factor("adascale", gradient, self.batch.initial, total)
        factor = self.choice.rate_factor * (
            gain
            if rule == "adascale"
            else learning_rate_factor(rule, gradient, self.batch.initial, total)
        )
        tuned = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] *= factor
        self._optimiser.step()
        self._rate = float(max(group["lr"] for group in groups))
        for group, rate in zip(groups, tuned, strict=True):
            group["lr"] = rate
        self.steps, self.examples = self.steps + 1, self.examples + total
        self.progress += gain
        self._meter.refresh(self.steps)

    def _measure(self, scale: float) -> None:
        """Add up what the replicas measured, in one message, and take it into the averages."""
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
        """Whatever is due."""
        if self.steps % self.options.decision_steps == 0:
            self._decide()
        if self._stale:
            self._leave()
        if self.steps % self.options.checkpoint_steps == 0:
            self._save()
        if self._replicas.first and self.report.due:
            self._publish()

    def _decide(self) -> None:
        """Ask the batch rule; the first replica's answer is everybody's."""
        found = self.choice
        if self._replicas.first:
            found = self.options.batch_rule.choose(
                Situation(
                    nodes=self.report.nodes,
                    replicas=self._replicas.count,
                    present=self.choice,
                    batch=self.batch,
                    epoch=self.epoch,
                    learning_rate=self._rate,
                    loss=self.loss,
                    gradient=self.gradient,
                    throughput=self.report.throughput,
                )
            )
            most = DOUBLE * self.total
            if self._unsettled and found.total(self._replicas.count) > most:
                bounded = split_batch(most, self._replicas.count, self.batch)
                found = bounded._replace(rate_factor=found.rate_factor)
        atomic, accumulation, factor = self._replicas.told(found)
        found = BatchChoice(int(atomic), int(accumulation), factor)
        if found != self.choice:
            self._meter.forget()
            self._clock.warm_up(self.steps)
            self.choice = found

    @property
    def _unsettled(self) -> bool:
        """Whether the statistics, if there are any, are of few steps."""
        settled = 1.0 - self.options.decay**self.options.settling_steps
        return 0.0 < self._average.weight < settled * (1.0 - ROUNDING)

    def _publish(self, *, finished: bool = False) -> None:
        """Write the job's state."""
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
        """Make a checkpoint, and say so."""
        self._save()
        if self._replicas.first:
            self._publish(finished=finished)
        self.report.close()

    def _leave(self) -> None:
        """End, to be started again on another allocation."""
        self._end()
        self._replicas.close()
        raise SystemExit(EXIT_REALLOCATED)

    def _save(self) -> None:
        """Make a checkpoint, the first replica for all."""
        everybody = self._replicas.gathered(random_states())
        if self._replicas.first:
            save_checkpoint(
                self.options.file(CHECKPOINT),
                {
                    "name": self.options.name,
                    "parameters": self._meter.shapes,
                    "replicas": self._replicas.count,
                    "module": self._plain.state_dict(),
                    "optimiser": self._optimiser.state_dict(),
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
        """Go on from the checkpoint, if there is one; whether its batch suits as it is."""
        path = self.options.file(CHECKPOINT)
        found = load_checkpoint(path, self.options.name, self._meter.shapes, self._companions)
        if found is None:
            return False
        self._plain.load_state_dict(found["module"])
        self._optimiser.load_state_dict(found["optimiser"])
        for name, one in self._companions.items():
            one.load_state_dict(found["companions"][name])
        self.report.load(found["report"])
        self._average = GradientAverage(*found["average"])
        self.steps, self.examples, self.progress, self.loss = found["counts"]
        self.choice = BatchChoice(*found["choice"])
        self._meter.load(found["meter"])
        if found["replicas"] == self._replicas.count:
            mine = found["random"][self._replicas.rank]
            self._restore_random = partial(restore_random, mine)
            return True
        self._meter.forget()
        entropy = self.options.seed, self.steps, self._replicas.rank
        self._restore_random = partial(seed_random, entropy)
        total = float(self.choice.total(found["replicas"]))
        split = split_batch(total, self._replicas.count, self.batch)
        self.choice = split._replace(rate_factor=self.choice.rate_factor)
        return False
