"""Language models: what is read, what ships, and rounds of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.derivation.fit_language_models import derive_language_models, main
from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.plans import (
    generate_llm_round,
    read_llm_trainings,
    shipped_language_models,
    shipped_llm_fits,
    shipped_llm_times,
)
from goodalloc.data.plans.llm_round import step_seconds
from goodalloc.data.plans.shipped_llm import SHIPPED
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.certificates.solve import solve

if TYPE_CHECKING:
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


def test_a_folder_without_the_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="llm-foundry"):
        main(["--reference", str(tmp_path)])


def test_more_gpus_shorten_a_step_and_faster_ones_too() -> None:
    models, fits = shipped_language_models(), shipped_llm_fits()
    for name in ("1b", "7b", "30b"):
        seconds = {
            kind: [
                step_seconds(models[name], kind, fits[name][kind], gpus, 1024)
                for gpus in (8, 16, 32, 64, 128)
            ]
            for kind in ("a100_80gb", "h100_80gb")
        }
        for row in seconds.values():
            assert (np.diff(row) < 0).all()
        assert seconds["h100_80gb"][0] < seconds["a100_80gb"][0]
    assert "70b" in models
    assert fits["70b"]["h100_80gb"].gpus == 32
    assert set(shipped_llm_times().coefficients) >= {"a100_80gb", "h100_80gb"}


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
