"""Language models: what is read, what ships, and rounds of them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.derivation.fit_language_models import derive_language_models, main
from goodalloc.data.derivation.fit_micro_batches import derive_micro_batches
from goodalloc.data.derivation.fit_micro_batches import main as main_of_micro_batches
from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.plans import (
    generate_llm_round,
    llm_step,
    read_llm_trainings,
    shipped_language_models,
    shipped_llm_fits,
    shipped_llm_times,
)
from goodalloc.data.plans.llm_round import BATCHES, MOST_NODES
from goodalloc.data.plans.llm_steps import SHIPPED as MICRO_BATCHES
from goodalloc.data.plans.llm_steps import fitting_passes
from goodalloc.data.plans.shipped_llm import SHIPPED, TOKENS
from goodalloc.models.plans import accumulated_seconds
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.certificates.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADING = (
    "Model,SeqLen (T),# GPUs,GPU,MFU,Model TFLOP,MicroBatchSize,GradAccum,GlobalBatchSize,"
    "Throughput (T/s),Throughput (T/s/GPU),Precision,Activation Checkpointing,NumParams"
)
ROW = "7b,2048,16,h100_80gb,45,428,8,2,256,131072,8192,amp_bf16,True,6650000000"


def write(folder: Path, *rows: str) -> Path:
    """Write a table, and return the folder that holds its folder."""
    (folder / "llm-training").mkdir(exist_ok=True)
    (folder / "llm-training" / "llm-foundry.csv").write_text("\n".join([HEADING, *rows]) + "\n")
    return folder


def test_a_training_is_read_with_the_seconds_of_a_pass(tmp_path: Path) -> None:
    (training,) = read_llm_trainings(write(tmp_path, ROW))
    assert training.name == "7b"
    assert training.seconds == 256 * 2048 / 131072 / 2
    assert training.one[1:] == ("h100_80gb", 16, 2048, 8, True)
    a_token = 428e12 / 8192
    assert training.one.model.attention == pytest.approx((a_token - 6 * 6.65e9) / 2048)


def test_trainings_of_eight_bits_are_left_out(tmp_path: Path) -> None:
    assert len(read_llm_trainings(write(tmp_path, ROW, ROW.replace("bf16", "fp8")))) == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (",16,h100", ",12,h100", "line 2: # GPUs is '12'; expected a multiple of 8"),
        (",True,", ",maybe,", "Activation Checkpointing is 'maybe'; expected True or False"),
        (",131072,", ",0,", r"Throughput \(T/s\) is '0'; expected a finite number above 0"),
        (",8,2,256", ",0,2,256", "MicroBatchSize is '0'; expected a whole number"),
    ],
)
def test_a_malformed_table_is_refused(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_llm_trainings(write(tmp_path, ROW.replace(old, new, 1)))


def test_what_ships_is_what_the_published_table_gives(reference: Path) -> None:
    shipped, derived = json.loads(read_shipped(SHIPPED)), derive_language_models(reference)
    assert shipped["models"].keys() == derived["models"].keys()
    assert shipped["fits"] == derived["fits"]
    for kind, numbers in derived["coefficients"].items():
        assert shipped["coefficients"][kind] == pytest.approx(numbers, rel=1e-9)
    for choice, numbers in derived["errors"].items():
        assert shipped["errors"][choice] == pytest.approx(numbers, rel=1e-9)


def test_the_shipped_fit_predicts_models_that_it_did_not_see() -> None:
    errors = json.loads(read_shipped(SHIPPED))["errors"]
    assert errors["other_models"]["median"] < 0.04
    assert errors["fewer_gpus"]["median"] < 0.03


@pytest.mark.parametrize("derive", [main, main_of_micro_batches])
def test_a_folder_without_the_table_is_refused(
    derive: Callable[[list[str]], None], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="llm-foundry"):
        derive(["--reference", str(tmp_path)])


def test_more_gpus_shorten_a_step_and_faster_ones_too() -> None:
    models, fits = shipped_language_models(), shipped_llm_fits()
    for name in ("1b", "7b", "30b"):
        seconds = {
            kind: [llm_step(name, kind, gpus, 1024).seconds for gpus in (8, 16, 32, 64, 128)]
            for kind in ("a100_80gb", "h100_80gb")
        }
        for row in seconds.values():
            assert (np.diff(row) < 0).all()
        assert seconds["h100_80gb"][0] < seconds["a100_80gb"][0]
    assert "70b" in models
    assert fits["70b"]["h100_80gb"].gpus == 32
    assert set(shipped_llm_times().coefficients) >= {"a100_80gb", "h100_80gb"}


def test_no_micro_batch_that_fits_makes_a_step_faster() -> None:
    """Of every model on every type, tried one by one on one to all nodes; of the one that fits with
    activations computed again and without, none makes one faster in as few passes."""
    times = shipped_llm_times()
    for name, by_type in shipped_llm_fits().items():
        for kind, fit in by_type.items():
            for gpus in (8 * nodes for nodes in (1, 3, 8, 21, MOST_NODES) if 8 * nodes >= fit.gpus):
                fitting = fitting_passes(name, kind, gpus)
                tried = [
                    one._replace(sequences=micro_batch)
                    for one in fitting
                    for micro_batch in range(1, one.sequences + 1)
                ]
                both = len({one.recomputes for one in fitting}) > 1
                assert both == ((name, kind) == ("13b", "h100_80gb") and gpus >= 128)
                for batch in BATCHES:
                    step = llm_step(name, kind, gpus, batch)
                    passes = [math.ceil(math.ceil(batch / gpus) / one.sequences) for one in tried]
                    seconds = [
                        accumulated_seconds(times, one, batch)
                        for one, count in zip(tried, passes, strict=True)
                        if not both or count == step.passes
                    ]
                    assert step.passes == min(passes)
                    assert step.seconds in seconds
                    assert step.seconds <= min(seconds) * (1 + 1e-12)


def test_micro_batches_that_ship_are_what_the_published_table_gives(reference: Path) -> None:
    assert json.loads(read_shipped(MICRO_BATCHES)) == derive_micro_batches(reference)


def test_the_largest_micro_batches_are_those_of_the_fits() -> None:
    for name, by_type in shipped_llm_fits().items():
        for kind, fit in by_type.items():
            largest = fitting_passes(name, kind, 8 * MOST_NODES)[-1]
            assert (largest.sequences, largest.recomputes) == fit[1:]
            with pytest.raises(ValueError, match=f"at least {fit.gpus}"):
                fitting_passes(name, kind, fit.gpus - 1)


def test_activations_are_not_computed_again_where_as_few_passes_fit_without() -> None:
    """Thirteen billion parameters on 128 H100, two sequences each, by the numbers of the fit."""
    without, again = fitting_passes("13b", "h100_80gb", 128)
    assert (without.sequences, without.recomputes) == (2, False)
    assert again.recomputes
    seconds = shipped_llm_times().seconds(without)
    assert llm_step("13b", "h100_80gb", 128, batch=256).seconds == seconds
    assert llm_step("13b", "h100_80gb", 128, batch=512).passes == 1


def test_sixteen_sequences_computed_again_were_measured_faster_than_two_that_were_not(
    reference: Path,
) -> None:
    """The table has one model with both on one type; the fit alone would say the opposite."""
    each: dict[tuple[int, bool], list[float]] = {}
    for training in read_llm_trainings(reference):
        one = training.one
        if (training.name, one.gpu_type, one.tokens) == ("13b", "h100_80gb", TOKENS):
            shape = one.sequences, one.recomputes
            each.setdefault(shape, []).append(training.seconds / one.sequences)
    assert each.keys() == {(2, False), (16, True)}
    assert max(each[16, True]) < min(each[2, False])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("7", "h100_80gb", 8, 256), "Language model is '7'"),
        (("7b", "h100", 8, 256), "Language model '7b': type of GPU is 'h100'"),
        (("70b", "h100_80gb", 16, 256), "'70b' on h100_80gb: GPUs is 16; .* at least 32"),
        (("7b", "h100_80gb", 12, 256), "GPUs is 12; expected a multiple of 8"),
        (("7b", "h100_80gb", 8, 0), "Step: batch is 0"),
    ],
)
def test_steps_that_make_no_sense_are_refused(
    arguments: tuple[str, str, int, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        llm_step(*arguments)


def test_a_job_of_a_round_tells_its_plan_and_micro_batch_by_its_name() -> None:
    """The ratio of two speeds is that of the steps of the model and batch in the name."""
    for job in generate_llm_round(seed=0, jobs=12).jobs:
        name, batch, _ = job.name.split("-")
        for mode in job.modes:
            assert isinstance(mode.model, SpeedupTable)
            speeds = mode.model.several_nodes
            one, two = (llm_step(name, mode.name, gpus, int(batch)) for gpus in (64, 128))
            assert speeds[127] / speeds[63] == pytest.approx(one.seconds / two.seconds)
            assert one.plan.gpus == 64


@pytest.mark.parametrize("seed", range(6))
def test_rounds_of_language_models_are_decided_on_whole_nodes(seed: int) -> None:
    instance = generate_llm_round(seed, jobs=12, a100_nodes=6, h100_nodes=6)
    best, greedy = solve(instance), solve(instance, "greedy")
    assert str(best.status) == "optimal"
    assert best.allocation is not None
    assert violations(instance, best.allocation) == ()
    assert fitness(instance, best.allocation) >= greedy.fitness * (1 - 1e-9)
    assert (best.allocation.job_replicas % 8 == 0).all()


def test_equal_seeds_give_equal_rounds() -> None:
    assert generate_llm_round(3, 10) == generate_llm_round(3, 10)
    assert generate_llm_round(3, 10) != generate_llm_round(4, 10)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1, 10), "Round: seed is -1"),
        ((0, 0), "Round: jobs is 0"),
        ((0, 1, 0, 4), "Round: a100_nodes is 0"),
        ((0, 1, 4, 0), "Round: h100_nodes is 0"),
    ],
)
def test_rounds_that_make_no_sense_are_refused(arguments: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        generate_llm_round(*arguments)
