"""Tables of what there is to choose from, written from the registries."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from faces import ROOT, room_path

from goodalloc.experiments.studies.catalogue import ENTRIES, GROUPS
from goodalloc.experiments.studies.documents import stored_result, whole_minutes
from goodalloc.experiments.studies.entries import OTHERS, STUDIES, TRAININGS
from goodalloc.experiments.studies.published_entries import PUBLISHED
from goodalloc.experiments.studies.stored_figures import DRAWABLE
from goodalloc.solvers import POLICIES, make_policy
from goodalloc.solvers.interface.base import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goodalloc.experiments.studies.entry import Entry

#: What each solver counts, and what it proves (`tests/test_docs.py`: of every one that ships).
PROVES: Mapping[str, tuple[str, str]] = {
    "highs": ("GPUs, modes", "the optimum, for every power"),
    "pyomo": ("GPUs, modes, parts of a GPU", "the optimum, for every power"),
    "brute_force": ("GPUs, modes, parts of a GPU", "the optimum of tiny rounds"),
    "convex": ("GPUs", "a bound"),
    "knapsack": ("GPUs, modes", "a bound"),
    "genetic": ("GPUs, modes", "nothing; `knapsack` bounds it"),
    "greedy": ("GPUs, modes", "nothing; `knapsack` bounds it"),
    "local_search": ("GPUs", "nothing; `knapsack` bounds it"),
    "best_fit": ("parts of a GPU; jobs of one node", "nothing; `knapsack` bounds it"),
    "fgd": ("parts of a GPU; jobs of one node", "nothing; `knapsack` bounds it"),
    "pods": ("parts of a GPU; jobs of one node, at p = 1", "a bound by classes or prices"),
    "sia": (
        "GPUs of several types",
        "the optimum of Sia's own program; `knapsack` bounds the round",
    ),
    "synergy_opt": ("modes of rigid jobs", "a bound for p ≤ 1"),
    "synergy_tune": ("modes of rigid jobs", "nothing; `knapsack` bounds it"),
    "synergy_proportional": ("modes of rigid jobs", "nothing; `knapsack` bounds it"),
    "synergy_greedy": ("modes of rigid jobs", "nothing; `knapsack` bounds it"),
}

#: What a study stands beside: a publication's table or figure, or a page of this site.
COUNTERPARTS: Mapping[str, str] = {
    **{
        name: f"Pollux (OSDI'21), {entry.title.partition(':')[0]}"
        for name, entry in PUBLISHED.items()
    },
    **dict.fromkeys(STUDIES, "none: the question is not asked in Pollux (OSDI'21)"),
    "overheads-pollux": "Pollux (OSDI'21): overheads that it states",
    "tie-rules": "Pollux (OSDI'21), Figure 8c",
    "synergy": "Synergy (OSDI'22): TUNE within 10 % of OPT",
    "sia": "Sia (SOSP'23): results of its own simulator",
    "sia-gavel": "Sia (SOSP'23): Gavel in its own simulator",
    "mixed": "none",
    "restrictions": "none: what the restrictions of Sia (SOSP'23) cost",
    "openb": "FGD (ATC'23), Figure 9a",
    "slaq": "SLAQ (SoCC'17): quality 73 % better; [more](../formulations/SLAQ.md)",
    "allox": "AlloX (EuroSys'20): 95 % below DRF at most; [more](../formulations/ALLOX.md)",
    "hesrpt": "heSRPT (2020): 30 % better than the others; [more](../formulations/HESRPT.md)",
    "themis": "Themis (NSDI'20): finish-time fairness; [more](../formulations/THEMIS.md)",
    "family": "none: policies of all systems on one workload",
    "gavel": "Gavel (OSDI'20): 1.4 times less makespan; [more](../formulations/GAVEL.md)",
    "gavel-cost": "Gavel (OSDI'20): 1.4 times less cost; [more](../formulations/GAVEL.md)",
    "gavel-levels": "Gavel (OSDI'20): hierarchical fairness; [more](../formulations/GAVEL.md)",
    "gavel-load": "Gavel (OSDI'20), Figures 8, 9: 3.5 times shorter average completion",
    "gavel-packing": "Gavel (OSDI'20): space sharing; [more](../formulations/GAVEL.md)",
    "time-shares": "Gavel (OSDI'20), POP (SOSP'21); [more](../formulations/POP.md)",
    "themis-auctions": "Themis (NSDI'20): truthful auctions; [more](../formulations/THEMIS.md)",
    "themis-searches": "Themis (NSDI'20): 2.25 times fairer; [more](../formulations/THEMIS.md)",
    "hindsight-types": "none: the policies of Sia (SOSP'23); [more](../formulations/HINDSIGHT.md)",
    "hindsight-trees": "none: policies on a tree; [more](../formulations/HINDSIGHT.md)",
    "hindsight-traces": "none: rigid jobs; [more](../formulations/HINDSIGHT.md)",
    "hindsight-plans": "none: those of Arena (EuroSys'26); [more](../formulations/HINDSIGHT.md)",
    "hindsight-pods": "none: those of AITurbo (HPDC'21); [more](../formulations/HINDSIGHT.md)",
    "hindsight-load": "none: Gavel's sweep (OSDI'20); [more](../formulations/HINDSIGHT.md)",
    "hindsight-machines": "none: AlloX's queues (EuroSys'20); [more](../formulations/HINDSIGHT.md)",
    "hindsight-tables": "none: tables of other studies; [more](../formulations/HINDSIGHT.md)",
    "hindsight-optimum": "none: small days; [more](../formulations/HINDSIGHT.md)",
    "hindsight-minute": "none: within 60 s a day; [more](../formulations/HINDSIGHT.md)",
    "hindsight-growth": "none: time and memory; [more](../formulations/HINDSIGHT.md)",
    "profile-parts": "none: fitted to what was measured",
    "profile-fits": "none: what ships beside what it was fitted to",
    "gpu-profiles": "none: measured profiles that ship",
    "predictability": "AITurbo (HPDC'21): the classifier",
    "step-times": "Optimus (EuroSys'18), AITurbo (HPDC'21): the model of a step",
    "step-bandwidth": "AITurbo (HPDC'21), slide 10; its numbers were not available to us",
    "exchange": "none: AITurbo (HPDC'21) and Optimus beside the optimum",
    "overheads": "AITurbo (HPDC'21) names both overheads; its numbers were not available to us",
    "aiturbo-replay": "AITurbo (HPDC'21): figures of its follow-on",
    "aiturbo-conditions": "AITurbo (HPDC'21): half the time of the better baseline",
    "gandiva": "Gandiva (OSDI'18); [more](../formulations/GANDIVA.md)",
    "antman": "AntMan (OSDI'20): memory and computation in use; [more](../formulations/ANTMAN.md)",
    **dict.fromkeys(
        (
            "library",
            "library-trees",
            "library-pods",
            "library-large",
            "library-ablation",
            "library-rounds",
        ),
        "none: the package's own [library of rounds](../experiments/LIBRARY.md)",
    ),
    "making-room": "none: greedy plans beside the optimum; [more](../formulations/ROOM.md)",
    "topology": "none: Kueue's placements beside the optimum; [more](../formulations/TOPOLOGY.md)",
    "topology-nodes": "none: on nodes of openb; [more](../formulations/TOPOLOGY.md)",
    "tree-replays": "none: whole days on a tree; [more](../formulations/TOPOLOGY.md)",
    "arena": "Arena (EuroSys'26): 75 to 77 % shorter; [more](../formulations/PLANS.md)",
    "arena-published": "Arena (EuroSys'26): 75 to 77 % shorter, by three ways to count",
    "llm-times": "none: the measurements are published; [more](../formulations/PLANS.md)",
    "traces": "none: the traces are published, such replays are not",
    **dict.fromkeys(TRAININGS, "none: training on this machine"),
}

#: Figures that take seconds, which the build draws, and the options that make them so quick.
DRAWN: Mapping[str, tuple[str, ...]] = {
    "fig1": (),
    "themis-auctions": ("--quick",),
    "allox": ("--quick",),
    "hesrpt": ("--quick",),
    "gavel-levels": ("--quick",),
}

#: The tutorials in the order in which they are best read.
TUTORIALS = (
    "compare_heuristic",
    "own_policy",
    "own_trace",
    "look_back",
    "mixed_clusters",
    "add_constraint",
    "export_and_solve",
    "results_in_pandas",
    "measure_and_train",
)

#: Heading of each part of the catalogue.
PARTS: Mapping[str, Mapping[str, Entry]] = {
    "Pollux's tables and figures": PUBLISHED,
    "Further questions about Pollux": STUDIES,
    "Other systems": OTHERS,
    "Real training on this machine": TRAININGS,
}


def choice_tables() -> dict[str, str]:
    """The decision tables, by the paths at which `start/choose.md` includes them."""
    return {
        "start/tables/solvers.md": solver_table(),
        "start/tables/policies.md": policy_table(),
        "start/tables/studies.md": study_table(),
    }


def solver_table() -> str:
    """Every solver that ships: what it does, what it counts, what it proves."""
    rows = [(f"`{name}`", solver_sentence(name), *PROVES[name]) for name in SOLVERS]
    return _table(("solver", "what it does", "what it counts", "what it proves"), rows)


def solver_sentence(name: str) -> str:
    """The first paragraph of a solver's docstring."""
    module, _, function = SOLVERS[name].partition(":")
    source = room_path(module).with_suffix(".py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    raise ValueError(f"Solver '{name}': {module} has no function '{function}'.")


def policy_table() -> str:
    """Every policy that ships: what it is, the batch sizes of its jobs, the clusters it serves."""
    rows = []
    for name, policy in POLICIES.items():
        batches = make_policy(name).batch_sizes
        kinds = "several types" if policy.gpu_types else "one type"
        serves = f"{kinds}, cores" if policy.resources else "one type, GPUs only"
        rows.append((f"`{name}`", policy.text, batches, serves))
    return _table(("policy", "what it is", "batch sizes", "nodes that it serves"), rows)


def study_table() -> str:
    """Every study: what it is, what it stands beside, its minutes."""
    parts = [f"### {title}\n\n{_studies(entries)}" for title, entries in PARTS.items()]
    groups = [
        f"- `goodalloc reproduce {name}`: {', '.join(f'`{member}`' for member in members)}"
        for name, members in GROUPS.items()
    ]
    return "\n".join([*parts, "### Several at once\n", *groups, ""])


#: Lines with which a page that the build executes begins.
NOTEBOOK = ("---", "file_format: mystnb", "kernelspec:", "  name: python3", "---")


def gallery_pages() -> dict[str, str]:
    """The pictures that take seconds, each with its command; the build draws them."""
    lines = [
        *NOTEBOOK,
        "# Figures drawn while this site was built\n",
        "Each is what the command above it draws, on the profiles that ship. `--quick` takes fewer",
        "jobs or seeds, so compare the lines of such a picture with each other only.\n",
        "```{code-cell}\n:tags: [remove-cell]\nfrom IPython.display import Image",
        "from goodalloc.experiments.cli.main import main\n```\n",
    ]
    for name, options in DRAWN.items():
        command = ["reproduce", name, *options]
        picture = f"{name}/{name}{'-quick' if options else ''}.png"
        lines += [
            f"## {_title(name, ENTRIES[name])}\n",
            f"Beside: {COUNTERPARTS[name]}.\n",
            f"```sh\ngoodalloc {' '.join(command)} --out {name}\n```\n",
            "```{code-cell}\n:tags: [remove-input, remove-stdout, remove-stderr]",
            f"main({[*command, '--out', name]!r})\nImage({picture!r})\n```\n",
        ]
    return {"gallery/drawn.md": "\n".join(lines), "gallery/stored.md": _stored_figures()}


def _stored_figures() -> str:
    """The pictures of stored results, which the build draws from their rows."""
    lines = [
        *NOTEBOOK,
        "# Figures of the stored results\n",
        "Drawn from the rows in the repository by `goodalloc report --figures FOLDER`, without any",
        "replay; the command above each makes its rows anew.\n",
        "```{code-cell}\n:tags: [remove-cell]",
        "from IPython.display import Image",
        "from goodalloc.experiments.cli.main import main",
        "main(['report', '--figures', 'stored'])\n```\n",
    ]
    for name in DRAWABLE:
        lines += [
            f"## {_title(name, ENTRIES[name])}\n",
            f"Beside: {COUNTERPARTS[name]}.\n",
            f"```sh\n{stored_result(name).origin.command}\n```\n",
            f"```{{code-cell}}\n:tags: [remove-input]\nImage('stored/{name}.png')\n```\n",
        ]
    return "\n".join(lines)


def result_list() -> dict[str, str]:
    """The pages of results beside their studies, for `results/index.md`."""
    lines = ["```{toctree}\n:hidden:\n", "findings", "../experiments/RESULTS"]
    lines += [f"../experiments/{page.removesuffix('.md')}" for page in result_pages()]
    return {"results/list.md": "\n".join([*lines, "```", ""])}


def result_pages() -> dict[str, tuple[str, ...]]:
    """The studies that `RESULTS.md` lists, by their page of results in `experiments/`."""
    text = (ROOT / "experiments" / "RESULTS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([^\]]+)\]\((studies/[\w/-]+\.md)\)", text, flags=re.MULTILINE)
    return {page: tuple(re.findall(r"`([\w-]+)`", names)) for names, page in rows}


def tutorial_list() -> dict[str, str]:
    """The page that lists the tutorials: those of `TUTORIALS` in that order, then any others."""
    folder = ROOT / "experiments" / "tutorials"
    found = sorted(path.stem for path in folder.glob("*.md"))
    names = [name for name in TUTORIALS if name in found]
    names += [name for name in found if name not in TUTORIALS]
    lines = [
        "# Tutorials\n",
        "Each is a notebook that was executed while this site was built, and takes less than a",
        "minute. Its source is a Markdown file in `experiments/tutorials/`.\n",
    ]
    if names:
        entries = [f"../experiments/tutorials/{name}" for name in names]
        lines += ["```{toctree}", ":maxdepth: 1\n", *entries, "```\n"]
    return {"tutorials/index.md": "\n".join(lines)}


def _studies(entries: Mapping[str, Entry]) -> str:
    page_of = {name: page for page, names in result_pages().items() for name in names}
    rows = []
    for name, entry in entries.items():
        spent = whole_minutes(name)
        minutes = "" if spent is None else f"{spent:.0f}" if spent >= 10 else f"{spent:.1f}"
        study = f"[{_title(name, entry)}](../experiments/{page_of[name]})"
        rows.append((f"`goodalloc reproduce {name}`", study, COUNTERPARTS[name], minutes))
    return _table(("command", "study", "published counterpart", "minutes"), rows)


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '–') for cell in line)} |\n" for line in lines)


def _title(name: str, entry: Entry) -> str:
    """The title of a study without its name, and with a capital where it is an ordinary word."""
    title = entry.title.removeprefix(f"{name}: ")
    return title if title.startswith("heSRPT") else title[:1].upper() + title[1:]
