"""The library of rounds: its table, its recipes, its files and their digests."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.library import (
    LibraryRound,
    Selection,
    category_of,
    core_rounds,
    drawn_rounds,
    features_of,
    find_round,
    library_rounds,
    load_round,
    make_round,
    parse_recipe,
    read_catalogue,
    recipe_text,
)
from goodalloc.data.library import catalogue as catalogue_module
from goodalloc.data.library.catalogue import CATALOGUE, catalogue_text
from goodalloc.data.library.stored_files import (
    file_of,
    library_folder,
    read_compressed,
    write_compressed,
)
from goodalloc.data.topology import features_on_tree, load_tree_round, make_tree_round
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.interface.result_file import result_from_dict
from tests.support.few import few

if TYPE_CHECKING:
    from goodalloc.data.library.recipes import Value

#: Jobs times nodes up to which every round is made anew here.
SMALL = 3_000

#: Parts of the small rounds.
PARTS = 8

DIGEST = "0" * 64


def line(**changes: Any) -> LibraryRound:
    """Return a line with some values changed."""
    given: dict[str, Any] = {
        "name": "one",
        "origin": "made",
        "category": "easy",
        "recipe": "pollux seed=1 jobs=4 nodes=2",
        "jobs": 4,
        "nodes": 2,
        "gpus": 8,
        "features": (),
        "sha256": DIGEST,
    }
    return LibraryRound(**(given | changes))


def test_the_library_is_as_large_as_it_claims() -> None:
    """At least 300 rounds of at least 8 origins, of every class, each with a value and a bound."""
    rounds = library_rounds().values()
    assert len(rounds) >= 300
    assert len({one.origin for one in rounds}) >= 8
    assert {one.category for one in rounds} == {"easy", "hard", "degenerate", "large"}
    assert all(one.known and one.fitness <= one.bound * (1 + 1e-9) for one in rounds)


@pytest.mark.parametrize("part", few(range(PARTS), 1))
def test_every_small_round_is_what_its_digest_says(part: int) -> None:
    """Drawn ones are made anew, recorded ones read; sizes and features are as in the table.

    Every eighth of them at a time, so that a part has rounds of every origin.
    """
    small = [one for one in library_rounds().values() if one.jobs * one.nodes <= SMALL]
    assert len(small) > 200
    assert any(one.on_tree for one in small[part::PARTS])
    for one in small[part::PARTS]:
        tree = load_tree_round(one.name) if one.on_tree else None
        instance = load_round(one.name) if tree is None else tree.instance
        assert instance.name == one.name
        sizes = (instance.num_jobs, instance.cluster.num_nodes, instance.cluster.num_gpus)
        assert sizes == (one.jobs, one.nodes, one.gpus)
        features = features_of(instance) if tree is None else features_on_tree(tree)
        assert features == one.features


@pytest.mark.slow
def test_every_large_round_is_what_its_digest_says() -> None:
    """Also those of thousands of jobs."""
    for one in library_rounds().values():
        if one.jobs * one.nodes > SMALL and not one.on_tree:
            assert load_round(one.name).num_jobs == one.jobs
        elif one.jobs * one.nodes > SMALL:
            assert load_tree_round(one.name).instance.num_jobs == one.jobs


def test_rounds_on_trees_are_selected_on_purpose_only() -> None:
    """Few solvers take them: by name, origin or feature, and never as part of the core."""
    by_tree = [one.name for one in library_rounds().values() if one.on_tree]
    assert len(by_tree) >= 20
    assert not any(one.on_tree for one in (*Selection()(), *core_rounds()))
    for chosen in (Selection(origins=("tree",)), Selection(features=("tree",))):
        assert [one.name for one in chosen()] == by_tree
    assert Selection(names=(by_tree[0],))()[0].on_tree


def test_a_round_on_a_tree_is_loaded_as_one_and_others_are_not() -> None:
    """The sentence says which function does."""
    with pytest.raises(ValueError, match="on a tree; expected one without"):
        load_round("tree-20x16-cold-1")
    with pytest.raises(ValueError, match="on no tree; expected one on a tree"):
        load_tree_round("tiny-cold")
    with pytest.raises(ValueError, match="'tree' is unknown"):
        make_round("tree seed=1 jobs=4 nodes=8", "mine")
    with pytest.raises(ValueError, match="'pollux' is unknown"):
        make_tree_round("pollux seed=1 jobs=4", "mine")


def test_every_best_known_value_has_an_allocation_that_reaches_it() -> None:
    """Of the core, checked and valued anew."""
    for one in core_rounds():
        instance = load_round(one.name)
        answer = result_from_dict(read_compressed(file_of("answers", one.name)), instance)
        assert answer.allocation is not None
        assert not violations(instance, answer.allocation)
        assert fitness(instance, answer.allocation) == pytest.approx(one.fitness, rel=1e-12)


def test_the_library_ships_the_files_that_it_needs_and_no_others() -> None:
    """A file for every recorded round, an answer for every round, certificates for some."""
    shipped = {
        kind: {path.name.removesuffix(".json.gz") for path in (library_folder() / kind).iterdir()}
        for kind in ("rounds", "answers", "certificates")
    }
    rounds = library_rounds()
    assert shipped["rounds"] == {name for name, one in rounds.items() if one.recorded}
    assert shipped["answers"] == set(rounds)
    certified = {name for name, one in rounds.items() if one.proof == "certificate"}
    assert shipped["certificates"] <= certified
    assert len(shipped["certificates"]) > 250


def test_the_table_is_read_and_written_without_a_loss() -> None:
    """Its text comes out as it was."""
    path = Path(str(library_folder() / CATALOGUE))
    assert catalogue_text(read_catalogue(path)) == path.read_text(encoding="utf-8")


def test_drawn_rounds_are_in_the_table_with_their_recipes() -> None:
    """So that the table can be made anew by its script."""
    for one in drawn_rounds():
        assert find_round(one.name).recipe == one.recipe
        assert (find_round(one.name).category == "degenerate") == one.degenerate


words = st.from_regex(r"[a-z][a-z0-9:+-]{0,8}", fullmatch=True).filter(
    lambda word: word not in ("yes", "no", "inf")
)
values = st.one_of(st.integers(-999, 10**9), st.booleans(), words, st.floats(allow_nan=False))


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values))
def test_a_recipe_is_read_as_it_was_written(arguments: dict[str, Value]) -> None:
    """Numbers, words and truth values keep their kinds."""
    name, found = parse_recipe(recipe_text("kind", arguments))
    assert (name, found) == ("kind", arguments)
    assert {key: type(value) for key, value in found.items()} == {
        key: type(value) for key, value in arguments.items()
    }


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        ("", "Recipe '' is unknown"),
        ("polux seed=1", "did you mean pollux"),
        ("pollux", "missing"),
        ("pollux seed=1", "'jobs'"),
        ("pollux seed=1 jobs=4 colour=red", "colour"),
        ("pollux seed=1 jobs", "expected name=value"),
        ("pollux seed=1 jobs=", "expected name=value"),
        ("pollux =1", "expected name=value"),
        ("pollux seed=1 seed=2 jobs=4", "given twice"),
        ("pollux seed=-1 jobs=4", "seed"),
        ("pollux seed=1 jobs=0", "jobs"),
        ("pollux seed=1 jobs=4 state=old", "state"),
        ("pollux seed=1 jobs=4 power=high", "high"),
        ("pollux seed=1 jobs=4 groups=a:1", "name:nodes:gpus"),
        ("pollux seed=1 jobs=4 groups=a:x:2", "name:nodes:gpus"),
        ("equal seed=1 jobs=4 nodes=2 gpus=2 kinds=0", "kinds"),
        ("awkward seed=1 jobs=4 nodes=0", "nodes"),
        ("openb seed=1 pods=0 nodes=2", "pods"),
        ("benchmark name=nothing", "nothing"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_sentence(recipe: str, complaint: str) -> None:
    """The sentence names what is wrong."""
    with pytest.raises(ValueError, match=complaint) as caught:
        make_round(recipe, "mine")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "letters"),
        ({"origin": ""}, "origin"),
        ({"category": "medium"}, "class"),
        ({"jobs": 0}, "jobs"),
        ({"nodes": 0}, "nodes"),
        ({"gpus": -1}, "gpus"),
        ({"since": 0}, "since"),
        ({"sha256": "12"}, "64 hex digits"),
        ({"sha256": "g" * 64}, "64 hex digits"),
        ({"proof": "hope"}, "proof"),
        ({"fitness": 2.0, "bound": 1.0}, "bound"),
    ],
)
def test_a_bad_line_is_refused(changes: dict[str, Any], complaint: str) -> None:
    """Each value where it enters."""
    with pytest.raises(ValueError, match=complaint):
        line(**changes)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("fitness", "worth", "column 'fitness' is missing"),
        (",4,2,8,", ",4,two,8,", "nodes is"),
        (",4,2,8,", ",-4,2,8,", "jobs is"),
        ("easy", "medium", "class"),
        (DIGEST, "abc", "sha256"),
        ("0.25", "nan", "fitness is"),
        ("0.25", "-1", "fitness is"),
        ("0.25", "0.75", "bound"),
    ],
)
def test_a_bad_table_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """With one sentence that names the cell."""
    text = catalogue_text([line(fitness=0.25, bound=0.5, solver="highs", seconds=1.0)])
    assert old in text
    (tmp_path / "table.csv").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=complaint):
        read_catalogue(tmp_path / "table.csv")


def test_a_name_is_in_the_table_once(tmp_path: Path) -> None:
    """Else nobody would know which round is meant."""
    (tmp_path / "table.csv").write_text(catalogue_text([line(), line()]))
    with pytest.raises(ValueError, match="a name of its own"):
        read_catalogue(tmp_path / "table.csv")


def test_a_round_that_came_out_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its digest."""
    known = replace(find_round("tiny-cold"), sha256=DIGEST)
    monkeypatch.setattr(catalogue_module, "library_rounds", lambda: {"tiny-cold": known})
    with pytest.raises(ValueError, match="its digest is 7bd598cfe1d9"):
        load_round("tiny-cold")


def test_equal_documents_give_equal_bytes(tmp_path: Path) -> None:
    """Whenever they are written."""
    for name in ("a", "b"):
        write_compressed(tmp_path / name, {"jobs": [1, 2]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_compressed(tmp_path / "a") == {"jobs": [1, 2]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no whole file"),
        (b"no gzip", "not compressed"),
        (gzip.compress(b'{"a": 1}', mtime=0)[:-9], "no whole file"),
        (gzip.compress(b"{", mtime=0), "not JSON"),
        (gzip.compress(b'{"a": 1, "a": 2}', mtime=0), "twice"),
        (gzip.compress(b"\xff", mtime=0), "utf-8"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    """Whatever is wrong with it."""
    (tmp_path / "x.json.gz").write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        read_compressed(tmp_path / "x.json.gz")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match="cannot be read"):
        read_compressed(tmp_path / "none.json.gz")


@pytest.mark.parametrize(
    ("given_", "complaint"),
    [
        ({"names": ("tiny-colt",)}, "did you mean tiny-cold"),
        ({"origins": ("phily",)}, "did you mean philly"),
        ({"categories": ("eazy",)}, "did you mean easy"),
        ({"features": ("type",)}, "did you mean types"),
    ],
)
def test_what_no_round_has_cannot_be_selected(given_: dict[str, Any], complaint: str) -> None:
    """With what is closest to it."""
    with pytest.raises(ValueError, match=complaint):
        Selection(**given_)


def test_a_selection_holds_what_it_says() -> None:
    """All conditions together."""
    found = Selection(origins=("sia",), categories=("hard",), features=("running",), most_jobs=70)()
    assert found
    assert all(one.origin == "sia" and one.category == "hard" for one in found)
    assert all("running" in one.features and one.jobs <= 70 for one in found)
    still_open = [one.name for one in Selection()() if not one.closed]
    assert [one.name for one in Selection(only_open=True)()] == still_open != []


def test_the_class_follows_from_size_and_from_what_is_known() -> None:
    """Degenerate before large before hard; hard without a proof, by seconds, or by the spread."""
    easy = line(fitness=1.0, bound=1.0, seconds=1.0, greedy=0.99)
    assert category_of(easy, degenerate=False) == "easy"
    assert category_of(easy, degenerate=True) == "degenerate"
    assert category_of(replace(easy, jobs=1000, nodes=20), degenerate=False) == "large"
    assert category_of(replace(easy, bound=1.1), degenerate=False) == "hard"
    assert category_of(replace(easy, seconds=11.0), degenerate=False) == "hard"
    assert category_of(replace(easy, greedy=0.9), degenerate=False) == "hard"
    assert category_of(line(), degenerate=False) == "easy"


def test_the_core_has_two_rounds_at_most_of_each_origin_and_class() -> None:
    """None of them large."""
    kinds = [(one.origin, one.category) for one in core_rounds()]
    assert len(kinds) > 30
    assert max(kinds.count(kind) for kind in kinds) == 2
    assert not any(category == "large" for _, category in kinds)


def test_an_unknown_line_has_no_gap() -> None:
    """Neither is it closed."""
    assert math.isnan(line().gap)
    assert not line().closed
