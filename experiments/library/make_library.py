"""Makes the table of the library's rounds, and records those of replays.

    python -m goodalloc.experiments.library.make_library [--reference FOLDER] [--origins NAME …]

FOLDER holds the published data of `data/ARTIFACTS.md`. Best known values of rounds that come out as
they were are kept; `python -m goodalloc.experiments.library.best_known` finds those of the others.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.instance import instance_digest, instance_to_dict
from goodalloc.data.library.catalogue import CATALOGUE, catalogue_text, read_catalogue
from goodalloc.data.library.families import drawn_rounds
from goodalloc.data.library.library_round import LibraryRound, category_of, features_of
from goodalloc.data.library.recipes import make_round, parse_recipe
from goodalloc.data.library.stored_files import write_compressed
from goodalloc.data.topology.library_trees import (
    TREE_RECIPES,
    features_on_tree,
    make_tree_round,
    tree_round_to_dict,
)
from goodalloc.data.topology.topology_file import tree_round_digest
from goodalloc.experiments.library.recorded_rounds import record, record_on_tree
from goodalloc.experiments.library.recordings import recordings
from goodalloc.solvers.topology.tree_policy import placed_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound

logger = logging.getLogger(__name__)

#: Folder of the library in the source tree.
FOLDER = Path(__file__).resolve().parents[2] / "data" / "library"


def drawn() -> Iterator[LibraryRound]:
    """Generate the lines of the rounds that are drawn by seed."""
    for one in drawn_rounds():
        if parse_recipe(one.recipe)[0] in TREE_RECIPES:
            found = line_on_tree(make_tree_round(one.recipe, one.name), one.origin, one.recipe)
        else:
            instance = make_round(one.recipe, one.name)
            found = line_of(instance, one.origin, one.recipe, degenerate=one.degenerate)
        yield replace(found, since=one.since)


def recorded(
    reference: Path, folder: Path, origins: Collection[str] | None = None
) -> Iterator[LibraryRound]:
    """Record rounds, write them to the folder, and generate their lines.

    Parameters
    ----------
    reference, folder
        Folder of the published data, and that of the library.
    origins
        Origins of the rounds to record; None for all.
    """
    numbers: Counter[str] = Counter()
    for recording in recordings():
        origin = recording.origin
        if origins is not None and origin not in origins:
            continue
        found: list[tuple[str, Instance, TopologyRound | None]]
        if recording.tree is None:
            found = [(r, one, None) for r, one in record(recording, reference)]
        else:
            found = [(r, one.instance, one) for r, one in record_on_tree(recording, reference)]
        for recipe, instance, tree in found:
            numbers[origin] += 1
            size = f"{instance.num_jobs}x{instance.cluster.num_nodes}"
            policy, _ = placed_by(recording.policy)
            name = f"{recording.label}-{size}-{policy}-{numbers[origin]}"
            document, line = _named(instance.replace(name=name), tree, origin, recipe)
            write_compressed(folder / "rounds" / f"{name}.json.gz", document)
            yield replace(line, since=recording.since)
        logger.info("%s: %d rounds", recording, len(found))


def _named(
    instance: Instance, tree: TopologyRound | None, origin: str, recipe: str
) -> tuple[Document, LibraryRound]:
    """Return the document and the line of a recorded round under the name of the instance."""
    if tree is None:
        return instance_to_dict(instance), line_of(instance, origin, recipe)
    round_ = replace(tree, instance=instance)
    return tree_round_to_dict(round_), line_on_tree(round_, origin, recipe)


def line_of(
    instance: Instance, origin: str, recipe: str, *, degenerate: bool = False
) -> LibraryRound:
    """Return the line of a round of which no value is known yet."""
    found = LibraryRound(
        name=instance.name,
        origin=origin,
        category="degenerate" if degenerate else "easy",
        recipe=recipe,
        jobs=instance.num_jobs,
        nodes=instance.cluster.num_nodes,
        gpus=instance.cluster.num_gpus,
        features=features_of(instance),
        sha256=instance_digest(instance),
    )
    return replace(found, category=category_of(found, degenerate=degenerate))


def line_on_tree(round_: TopologyRound, origin: str, recipe: str) -> LibraryRound:
    """Return the line of a round on a tree of which no value is known yet."""
    found = line_of(round_.instance, origin, recipe)
    return replace(found, features=features_on_tree(round_), sha256=tree_round_digest(round_))


def kept_values(lines: Sequence[LibraryRound], folder: Path) -> list[LibraryRound]:
    """Return the lines, with the former ones in place of those whose digest did not change."""
    path = folder / CATALOGUE
    former = {one.sha256: one for one in read_catalogue(path)} if path.is_file() else {}
    kept = []
    for one in lines:
        same = former.get(one.sha256)
        kept.append(one if same is None else replace(same, recipe=one.recipe, origin=one.origin))
    return kept


def main(argv: Sequence[str] | None = None) -> int:
    """Make the table and the recorded rounds."""
    parser = argparse.ArgumentParser(description="Make the table of the library's rounds.")
    parser.add_argument(
        "--reference",
        type=Path,
        help="folder of the published data; without it the recorded rounds are kept as they are",
    )
    parser.add_argument(
        "--origins",
        nargs="+",
        choices=sorted({one.origin for one in recordings()}),
        metavar="NAME",
        help="record only rounds of these origins, and keep the others as they are",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder: Path = arguments.folder
    reference: Path | None = arguments.reference
    for name in ("rounds", "answers", "certificates"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = list(drawn())
    anew: Collection[str] | None = arguments.origins if reference is not None else ()
    if anew is not None:
        former = read_catalogue(folder / CATALOGUE)
        lines += [one for one in former if one.recorded and one.origin not in anew]
    if reference is not None:
        lines += recorded(reference, folder, anew)
    write_atomically(folder / CATALOGUE, catalogue_text(kept_values(lines, folder)))
    logger.info("%d rounds", len(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
