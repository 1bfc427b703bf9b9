"""Steps of the shipped language models: plan, micro-batch and seconds on some GPUs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.data.plans.shipped_llm import TOKENS, shipped_language_models, shipped_llm_times
from goodalloc.models.plans.accumulated_step import fastest_step
from goodalloc.models.plans.sharded_training import ShardedPass
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.accumulated_step import AccumulatedStep

FORMAT, VERSION, SHIPPED = "goodalloc-micro-batches", 1, "profiles/micro_batches.json"


@cache
def _micro_batches() -> Mapping[str, Mapping[str, list[tuple[int, int, bool]]]]:
    """Return GPUs, most sequences on each and whether activations are computed again, rising."""
    return {
        name: {
            gpu_type: [(gpus, sequences, bool(again)) for gpus, sequences, again in rows]
            for gpu_type, rows in by_type.items()
        }
        for name, by_type in parse_document(read_shipped(SHIPPED), FORMAT, VERSION)["fits"].items()
    }


def fitting_passes(name: str, gpu_type: str, gpus: int) -> tuple[ShardedPass, ...]:
    """Return the largest passes of a shipped language model that fit, by rising micro-batch.

    Those are the largest measured on so many GPUs and on fewer: more GPUs hold less of the
    parameters each. Smaller ones fit with the same choice of whether activations are computed
    again.

    Parameters
    ----------
    name, gpu_type, gpus
        As of `llm_step`.

    Raises
    ------
    ValueError
        If the model or its type is unknown, or it does not fit on so few GPUs.
    """
    known = _micro_batches()
    require_choice("Language model", name, tuple(known))
    require_choice(f"Language model '{name}': type of GPU", gpu_type, tuple(known[name]))
    rows = known[name][gpu_type]
    require_count(f"Language model '{name}' on {gpu_type}: GPUs", gpus, minimum=rows[0][0])
    model = shipped_language_models()[name]
    return tuple(
        ShardedPass(model, gpu_type, gpus, TOKENS, sequences, again)
        for fewest, sequences, again in rows
        if fewest <= gpus
    )


def llm_step(name: str, gpu_type: str, gpus: int, batch: int) -> AccumulatedStep:
    """Return the step of a shipped language model in the fewest passes that fit.

    With the same choice of whether activations are computed again, the fewest passes are the
    fastest by the fit (`goodalloc.models.plans.fastest_step`). One model fits both ways, 13 billion
    parameters on 128 and more H100: 16 sequences computed again, or 2 that are not. There the fit
    contradicts the measurements, by which passes of 16 take less time for a sequence. So the fewest
    passes are taken there, too, and nothing is computed again where both ways make as few.

    Parameters
    ----------
    name
        Name of the language model, such as "7b".
    gpu_type, gpus
        Type and number of GPUs: whole nodes of eight, no fewer than were measured.
    batch
        Sequences of 2,048 tokens of a step, on all GPUs together.

    Raises
    ------
    ValueError
        If the model or its type is unknown, it does not fit on so few GPUs, they are no whole
        nodes, or the batch is no positive number.

    Examples
    --------
    >>> from goodalloc.data.plans import llm_step
    >>> llm_step("30b", "h100_80gb", gpus=8, batch=512).text
    'pp1 dp8 tp1, micro-batch 3, 22 passes'
    >>> step = llm_step("30b", "h100_80gb", gpus=32, batch=512)
    >>> step.text, round(step.seconds, 1)
    ('pp1 dp32 tp1, micro-batch 8, 2 passes', 15.2)
    """
    times = shipped_llm_times()
    steps = [fastest_step(times, one, batch) for one in fitting_passes(name, gpu_type, gpus)]
    return min(steps, key=lambda step: step.passes)  # the first of equals: the smallest that fits
