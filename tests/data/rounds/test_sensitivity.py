"""The shipped sensitivity to CPU and memory: what it says, where it comes from, what is refused."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.derivation.fit_sensitivity import derive_sensitivity, main
from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.rounds.sensitivity import (
    CLASSES,
    SHIPPED,
    Sensitivity,
    load_sensitivity,
    parse_sensitivities,
    sensitivity_names,
)
from tests.support.documents import BAD_MODELS, changed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.documents import Place

#: Relative throughput at the best point of the one-GPU profiles, as published.
BEST = {
    "alexnet": 2.94,
    "bert": 1.0,
    "deepspeech": 1.0,
    "gnmt": 1.0,
    "lstm": 1.0,
    "m5": 2.5,
    "mobilenet": 1.55,
    "res18": 2.4,
    "res50": 1.15,
    "shufflenet": 2.89,
    "transformer": 1.0,
    "vae": 1.0,
}


@pytest.fixture(scope="module")
def shipped() -> str:
    """The shipped file."""
    return read_shipped(SHIPPED)


def test_the_twelve_models_are_shipped_with_their_best_throughput() -> None:
    """Names in alphabetical order; every model is worth 1 on 3 cores and 62.5 GB."""
    assert sensitivity_names() == tuple(BEST)
    for name, best in BEST.items():
        model = load_sensitivity(name)
        table = model.throughput
        assert table.shape == (9, 5)
        assert table.max() == best
        assert table[model.cpus.tolist().index(3.0), model.memory.tolist().index(62.5)] == 1.0
        assert (np.diff(table, axis=0) >= 0).all()
        assert (np.diff(table, axis=1) >= 0).all()


def test_the_classes_are_those_of_the_published_split() -> None:
    """Five image models, two speech models, the rest language."""
    kinds = [load_sensitivity(name).kind for name in sensitivity_names()]
    assert [kinds.count(kind) for kind in CLASSES] == [5, 5, 2]


def test_the_shipped_file_is_derived_from_the_published_profiles(
    reference: Path, shipped: str, tmp_path: Path
) -> None:
    """Byte for byte."""
    main(["--reference", str(reference), "--out", str(tmp_path / "stages.json")])
    assert (tmp_path / "stages.json").read_text(encoding="utf-8") == shipped


def test_the_two_stages_give_back_every_published_number(reference: Path) -> None:
    """All 540 points of the one-GPU profiles, exactly."""
    points = 0
    with (reference / "synergy-profiles" / "throughput.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if (row["profile_set"], row["num_gpus"]) != ("models", "1"):
                continue
            model = load_sensitivity(row["model"])
            at = (
                model.cpus.tolist().index(float(row["cpus_per_gpu"])),
                model.memory.tolist().index(float(row["mem_gb_per_gpu"])),
            )
            assert model.throughput[at] == float(row["rel_throughput"])
            points += 1
    assert points == 540


def write_profiles(folder: Path, rows: list[tuple[str, int, float, float]]) -> Path:
    """A published table of these rows: model, cores, memory, throughput."""
    (folder / "synergy-profiles").mkdir()
    header = "profile_set,model,num_gpus,cpus_per_gpu,mem_gb_per_gpu,rel_throughput"
    lines = [f"models,{name},1,{c},{m},{w}" for name, c, m, w in rows]
    path = folder / "synergy-profiles" / "throughput.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("m5", 1, 1.0, 0.5), ("m5", 2, 2.0, 1.0)], r"'m5' lacks the point \(1.0, 2.0\)"),
        (
            [("m5", 1, 1.0, 0.5), ("m5", 1, 2.0, 0.7), ("m5", 2, 1.0, 0.8), ("m5", 2, 2.0, 1.0)],
            "'m5': its table is no lesser of two stages",
        ),
    ],
)
def test_a_table_that_the_stages_do_not_give_is_refused(
    rows: list[tuple[str, int, float, float]], words: str, tmp_path: Path
) -> None:
    """Nothing is fitted: what is shipped is exact or not at all."""
    with pytest.raises(ValueError, match=words):
        derive_sensitivity(write_profiles(tmp_path, rows))


def test_a_folder_without_the_profiles_is_refused(tmp_path: Path) -> None:
    """One sentence says what was expected."""
    with pytest.raises(ValueError, match="expected a folder that holds synergy-profiles"):
        derive_sensitivity(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        *BAD_MODELS,
        (("cpus",), [3.0, 1.0], "cpus are .*expected a rise"),
        (("cpus",), 3.0, "cpus is 3.0; expected a list"),
        (("memory",), [], "memory has shape"),
        (("models", "m5", "class"), "video", "class is 'video'; expected one of image"),
        (("models", "m5", "by_cpus"), [1.0], "'m5': by_cpus has 1 entries; expected 9"),
        (("models", "m5", "by_memory"), [2, 1, 1, 1, 1], "by_memory is .*expected no fall"),
        (("models", "m5", "by_memory"), [0, 1, 1, 1, 1], "by_memory is 0.0; .*above 0"),
        (("models", "m5", "by_memory"), ["a", 1, 1, 1, 1], "by_memory is 'a'"),
        (("models", "m5"), 7, "'m5' is 7; expected an object"),
    ],
)
def test_a_bad_document_is_refused(shipped: str, place: Place, value: object, words: str) -> None:
    """One sentence that names the item, its value and what was expected."""
    document = changed(json.loads(shipped), place, value)
    with pytest.raises(ValueError, match=words):
        parse_sensitivities(json.dumps(document))


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: load_sensitivity("gpt"), "model is 'gpt'; expected one of alexnet"),
    (
        lambda: Sensitivity("x", "image", np.ones(1), np.ones(1), np.ones(1), np.full(1, np.nan)),
        "by_memory is nan",
    ),
    (
        lambda: Sensitivity("", "image", np.ones(1), np.ones(1), np.ones(1), np.ones(1)),
        "name is ''",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_a_bad_call_is_refused(call: Callable[[], object], words: str) -> None:
    """The library raises ValueError with one sentence."""
    with pytest.raises(ValueError, match=words):
        call()
