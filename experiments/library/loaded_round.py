"""Round of the library as its runs and checks take it, on a tree or not."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from goodalloc.data.files.instance import instance_to_dict, read_instance, write_instance
from goodalloc.data.library.catalogue import find_round, load_round
from goodalloc.data.topology.topology_file import read_topology, write_topology
from goodalloc.experiments.gap.worker import Task
from goodalloc.experiments.verification import verify
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.solvers.certificates.certificate_file import certificate_to_dict
from goodalloc.solvers.interface.base import SOLVERS, call_solver, find_solver
from goodalloc.solvers.interface.result import Evidence, Status
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.interface.stop import Stop

#: A solver of rounds on trees, as the message names it.
EXAMPLE = "goodalloc.solvers.topology:solve_tree"


@dataclass(frozen=True)
class LoadedRound:
    """Round of the library.

    Parameters
    ----------
    instance
        Its jobs and nodes.
    tree
        The same with its tree; None without one.

    Examples
    --------
    >>> from goodalloc.experiments.library.loaded_round import LoadedRound
    >>> LoadedRound.of("tiny-cold").tree is None
    True
    """

    instance: Instance
    tree: TopologyRound | None = None

    @classmethod
    def of(cls, name: str) -> LoadedRound:
        """Return the round of a name.

        Raises
        ------
        ValueError
            As `load_round`.
        """
        if not find_round(name).on_tree:
            return cls(load_round(name))
        from goodalloc.data.topology.library_trees import load_tree_round  # a long chain

        tree = load_tree_round(name)
        return cls(tree.instance, tree)

    def value(self, allocation: Allocation) -> float:
        """Return the fitness of an allocation.

        Raises
        ------
        ValueError
            If it breaks a rule.
        """
        tree = self.tree
        broken = (
            topology_violations(tree, allocation) if tree else violations(self.instance, allocation)
        )
        if broken:
            raise ValueError(f"its allocation breaks a rule: {broken[0]}")
        return topology_fitness(tree, allocation) if tree else fitness(self.instance, allocation)

    def write(self, path: str, tree: str | None = None) -> list[str]:
        """Write the instance to a file and its tree, if it has one, to another; return both.

        Parameters
        ----------
        path, tree
            The files; without `tree` that of the tree is beside the other.
        """
        write_instance(self.instance, path)
        if self.tree is None:
            return [path]
        beside = tree or _tree_file(path)
        write_topology(self.tree, beside)
        return [path, beside]

    def task(self, path: str, solver: str, seed: int, stop: Stop) -> Task:
        """Return the run of a solver on the files that `write` wrote.

        Raises
        ------
        ValueError
            If the round is on a tree, and the solver is a shipped one of rounds without.
        """
        if self.tree is None:
            return Task(path, solver, seed, stop)
        if solver in SOLVERS:
            raise ValueError(
                f"Solver '{solver}': round '{self.instance.name}' is on a tree; expected a "
                f"function of a TopologyRound, such as {EXAMPLE}."
            )
        return Task(path, solver, seed, stop, attempt=f"{__name__}:attempt_on_tree")

    def certified(self, result: Result, stop: Stop) -> Result:
        """Return a checked result with the bound that prices prove, and their certificate."""
        from goodalloc.solvers.certificates.certificate_search import MOST_LEAVES  # long chains
        from goodalloc.solvers.certificates.counted_search import best_certified
        from goodalloc.solvers.certificates.tree_certificate import certify_tree

        if self.tree is None:
            return best_certified(self.instance, result, stop)
        leaves = MOST_LEAVES if result.status is Status.OPTIMAL else 1
        found = certify_tree(self.tree, result.fitness, stop, most_leaves=leaves)
        return replace(
            result,
            bound=found.bound,
            bound_source="prices",
            evidence=Evidence.PRICES,
            certificate=found,
        )

    def certificate_document(self, result: Result) -> Document | None:
        """Return the certificate of a result as its file has it; None without one."""
        if result.certificate is None:
            return None
        if self.tree is None:
            return certificate_to_dict(result.certificate)
        from goodalloc.solvers.certificates.tree_certificate_file import tree_certificate_to_dict

        return tree_certificate_to_dict(result.certificate)

    def verified(self, answer: object, certificate: object, *, exact: bool = False) -> Any:
        """Return the verdict of the stand-alone checker.

        Parameters
        ----------
        answer, certificate
            Contents of the files.
        exact
            Whether to calculate in rational numbers.
        """
        document = instance_to_dict(self.instance)
        if self.tree is not None:
            from goodalloc.solvers.certificates.resolved_tree import resolved_to_dict

            document = resolved_to_dict(self.tree)
        documents = (document, answer, certificate)
        return verify.verify(*(json.loads(json.dumps(one)) for one in documents), exact=exact)


def _tree_file(path: str) -> str:
    """Return the file of a tree beside that of its instance."""
    return str(Path(path).with_suffix(".tree.json"))


def attempt_on_tree(task: Task) -> Result:
    """Run a solver on a round on a tree, and return its checked answer.

    A bound that it claims is kept as such, and is not believed.

    Parameters
    ----------
    task
        The run, whose instance has the file of the tree beside it.
    """
    from goodalloc.solvers.topology.exact_tree import tree_result  # a long chain

    round_ = read_topology(_tree_file(task.instance), read_instance(task.instance))
    watch = Watch(task.stop)
    arguments = {"stop": task.stop, "seed": task.seed}
    # the contract of solvers but for the kind of round
    round_as_instance = cast("Instance", round_)
    answer = call_solver(find_solver(task.solver), round_as_instance, arguments, name=task.solver)
    result = tree_result(round_, task.solver, answer.allocation, math.inf, source="", watch=watch)
    message = answer.message
    if answer.allocation is not None and result.allocation is None:
        broken = topology_violations(round_, answer.allocation)
        message = f"infeasible allocation refused: {broken[0]}"
    return replace(result, claimed_bound=answer.bound, message=message)
