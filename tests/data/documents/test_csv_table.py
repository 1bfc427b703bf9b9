"""Tables that users bring and that make no sense: one sentence, whatever reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.parameter_servers.aiturbo_jobs import FEATURES, LABEL, read_aiturbo_jobs
from goodalloc.data.parameter_servers.worker_speed import read_ps_worker_speed
from goodalloc.data.pods.openb import read_openb
from goodalloc.data.workloads.philly import draw_from_philly, read_philly
from goodalloc.data.workloads.rigid_jobs import read_itp_jobs, read_services, read_tiresias_cluster
from goodalloc.data.workloads.workload import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Good(NamedTuple):
    """Files that are in order, and who reads their folder; the first is made bad."""

    files: dict[str, str]
    read: Callable[[Path], Any]


#: A workload, a list of past jobs, lists of pods and nodes, measurements, records, traces.
PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,4,0.4,0.1\n1,8,0.7,0.1\n12,4,0.5,0.2\n"
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,4,1.5,1.1\n6,9,8,1.7,1.2\n"
EPOCHS = "progress,iteration,metric,grad_sqr,grad_var\n10,10,1,0,3\n20,20,1,2,3\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,786432,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "x,4000,16384,1,460,\ny,3152,3840,2,1000,P100|T4\n"
)
RUN, PLACED, SCALED = "bert/validation-12.csv", "bert/placements.csv", "bert/scalability.csv"
TRACES = {RUN: EPOCHS, PLACED: PLACEMENTS, SCALED: SCALABILITY}
NODE_LIST, POD_LIST = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"


def _measured(folder: Path) -> None:
    MeasuredApplication(folder / "bert").step_times((1, 2, 3), 5)


def _philly(folder: Path) -> None:
    draw_from_philly(read_philly(folder / "list.csv"), 0, 2, "realistic", start=0, hours=24)


GOOD: dict[str, Good] = {
    "workload": Good(
        {
            "jobs.csv": "name,time,application,num_replicas,batch_size\n"
            "a,1,bert,1,12\nb,2,ncf,2,256\n"
        },
        lambda folder: read_workload(folder / "jobs.csv"),
    ),
    "philly": Good(
        {
            "list.csv": "timestamp,duration,num_gpus,gpu_time\n"
            "2017-10-03 07:33:10,600,1,600\n2017-10-04,60000,2,120000\n"
        },
        _philly,
    ),
    "nodes": Good({NODE_LIST: NODES, POD_LIST: PODS}, read_openb),
    "pods": Good({POD_LIST: PODS, NODE_LIST: NODES}, read_openb),
    "speeds": Good(
        {
            "speed.csv": "model,sync_mode,total_batch,num_ps,num_worker,sum_speed\n"
            "a,dist_sync,32,1,2,16.0\na,dist_sync,32,1,3,20\n"
        },
        read_ps_worker_speed,
    ),
    "records": Good(
        {
            "aiturbo_jobs.csv": ",".join([*(feature.name for feature in FEATURES), LABEL])
            + ("\n" + ",".join(["1"] * (len(FEATURES) + 1))) * 2
            + "\n"
        },
        read_aiturbo_jobs,
    ),
    "trace": Good(
        {"raw/cluster03.csv": "job_id,num_gpu,submission_time,duration\nx,1,5,60\ny,2,9,70\n"},
        lambda folder: read_itp_jobs(folder, 3),
    ),
    "services": Good({"yarn-gput1000.csv": "duration\n121\n300.5\n"}, read_services),
    "cluster": Good(
        {"n32g4.csv": "num_switch,num_node_p_switch,num_gpu_p_node\n1,32,4\n"},
        read_tiresias_cluster,
    ),
    "run": Good(TRACES, _measured),
    "placements": Good({PLACED: PLACEMENTS} | TRACES, _measured),
    "scalability": Good({SCALED: SCALABILITY} | TRACES, _measured),
}

#: A cell of the first row by its column, what stands there, and what the sentence says of it.
CELLS: list[tuple[str, str, str, str]] = [
    ("workload", "time", "-1", "Job 'a': time is -1; expected an integer of at least 0"),
    ("workload", "time", "1e3", "Job 'a': time is '1e3'"),
    ("workload", "time", "1_0", "Job 'a': time is '1_0'"),
    ("workload", "num_replicas", "0", "num_replicas is 0"),
    ("workload", "num_replicas", "inf", "num_replicas is 'inf'"),
    ("workload", "num_replicas", "9" * 40, "num_replicas is an integer of 133 bits"),
    ("workload", "batch_size", str(2**63), "at most 2147483647"),
    ("workload", "batch_size", "inf", "batch_size is 'inf'"),
    ("workload", "batch_size", "nan", "batch_size is 'nan'"),
    ("workload", "application", "", "application is ''"),
    ("workload", "name", "b", "'b' is listed twice"),
    ("philly", "timestamp", "soon", "line 2: timestamp is 'soon'; expected a time, as 2017-10-03"),
    ("philly", "timestamp", "", "timestamp is ''"),
    ("philly", "timestamp", "9999999", "timestamp is '9999999'"),
    ("philly", "duration", "inf", "duration is 'inf'; expected a finite number of at least 0"),
    ("philly", "duration", "", "duration is ''"),
    ("philly", "num_gpus", "inf", "num_gpus is 'inf'; expected a whole number of at least 0"),
    ("philly", "num_gpus", "1.5", "num_gpus is '1.5'; expected a whole number"),
    ("philly", "num_gpus", "1e300", "num_gpus is '1e300'; .* at most 2147483647"),
    ("philly", "gpu_time", "nan", "gpu_time is 'nan'"),
    ("philly", "gpu_time", "-5", "gpu_time is '-5'"),
    ("nodes", "gpu", "inf", "gpu is 'inf'; expected a whole number of at least 0"),
    ("nodes", "gpu", "-1", "gpu is '-1'"),
    ("nodes", "gpu", "99999", "gpus is 99999"),
    ("nodes", "cpu_milli", "1e999", "cpu_milli is '1e999'"),
    ("nodes", "memory_mib", "0.5", "memory_mib is '0.5'"),
    ("pods", "num_gpu", "inf", "num_gpu is 'inf'"),
    ("pods", "gpu_milli", "2000", "takes 2000 thousandths of each of 1 GPUs"),
    ("pods", "cpu_milli", "many", "line 2: cpu_milli is 'many'"),
    ("pods", "name", "y", "'y' is named twice"),
    ("speeds", "total_batch", "inf", "total_batch is 'inf'"),
    ("speeds", "num_ps", "1e10", "num_ps is '1e10'; .* at most 2147483647"),
    ("speeds", "sum_speed", "-1", "line 2: sum_speed is '-1'"),
    ("speeds", "sync_mode", "", "line 2: sync_mode is ''; expected 'dist_sync'"),
    ("records", "batch_size", "inf", "line 2: batch_size is 'inf'"),
    ("records", "worker", "1.5", "worker is '1.5'; expected a whole number"),
    ("trace", "num_gpu", "inf", "num_gpu is 'inf'; expected a whole number of at least 1"),
    ("trace", "duration", "inf", "line 2: duration is 'inf'; expected a finite number"),
    ("trace", "submission_time", "", "submission_time is ''"),
    ("services", "duration", "1e999", "duration is '1e999'; expected a finite number above 0"),
    ("cluster", "num_gpu_p_node", "1e30", "num_gpu_p_node is '1e30'"),
    ("cluster", "num_gpu_p_node", "1000", "gpus is 1000"),
    ("run", "progress", "inf", "line 2: progress is 'inf'"),
    ("run", "progress", "20", "line 3: progress is '20'; expected more than after the epoch"),
    ("run", "iteration", "0", "iteration is '0'; expected a finite number above 0"),
    ("run", "grad_sqr", "nan", "grad_sqr is 'nan'"),
    ("run", "grad_var", "-1", "grad_var is '-1'; expected a finite number of at least 0"),
    ("placements", "placement", "1a", "placement is '1a'; expected the GPUs of each node"),
    ("placements", "placement", "0", "placement is '0'"),
    ("placements", "placement", "-1", "placement is '-1'"),
    ("placements", "local_bsz", "inf", "local_bsz is 'inf'; expected a whole number"),
    ("placements", "local_bsz", "8", "line 3: local_bsz is '8'; expected more than in the row"),
    ("placements", "step_time", "0", "step_time is '0'; expected a finite number above 0"),
    ("placements", "sync_time", "fast", "sync_time is 'fast'"),
    ("scalability", "num_nodes", "0", "num_nodes is '0'"),
    ("scalability", "num_replicas", "1e400", "num_replicas is '1e400'"),
    ("scalability", "local_bsz", "inf", "local_bsz is 'inf'"),
    ("scalability", "step_time", "-inf", "step_time is '-inf'"),
]

#: What a whole file may be, made of the good one, and what the sentence says of that.
FILES: dict[str, tuple[Callable[[str], str], str]] = {
    "empty": (lambda _: "", "is empty; expected a CSV file"),
    "no rows": (lambda text: text.splitlines()[0] + "\n", "it has no rows; expected at least one"),
    "a blank row": (lambda text: text.splitlines()[0] + "\n\n\n", "it has no rows"),
    "another heading": (lambda text: "a,b\n" + text, "column '.*' is missing"),
    "a short row": (lambda text: f"{text},", "cells; expected"),
    "a long row": (lambda text: text + "1," * 40 + "1\n", "has 41 cells; expected"),
    "an open quotation": (lambda text: f'{text}"', "is not CSV"),
    "a column that is there twice": (
        lambda text: "\n".join(f"{line},{line}" for line in text.splitlines()),
        "column '.*' is there twice; expected it once",
    ),
}


def spoilt(kind: str, folder: Path, change: Callable[[str], str]) -> Path:
    """The files of a kind in a folder, the first of them changed: that one."""
    for name, text in GOOD[kind].files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / next(iter(GOOD[kind].files))
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def refused(kind: str, folder: Path, words: str) -> str:
    """The one sentence by which a folder is refused."""
    with pytest.raises(ValueError, match=words) as caught:
        GOOD[kind].read(folder)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


@pytest.mark.parametrize("kind", GOOD)
def test_good_files_are_read(tmp_path: Path, kind: str) -> None:
    """With a mark of the order of bytes, blanks, blank lines, and other line ends, too."""
    path = spoilt(kind, tmp_path, lambda text: text)
    if kind not in ("placements", "scalability", "run"):  # few points, on which no truth is known
        GOOD[kind].read(tmp_path)
    text = path.read_text(encoding="utf-8")
    heading = text.splitlines()[0].split(",")
    plain = read_table(path, heading)
    path.write_bytes(b"\xef\xbb\xbf" + text.replace(",", " , ").replace("\n", "\r\n\r\n").encode())
    assert read_table(path, heading).columns == plain.columns


@pytest.mark.parametrize(("kind", "column", "cell", "words"), CELLS)
def test_a_cell_that_makes_no_sense_is_refused(
    tmp_path: Path, kind: str, column: str, cell: str, words: str
) -> None:
    """The sentence names the item, its value and what was expected."""

    def change(text: str) -> str:
        heading, first, *others = text.splitlines()
        cells = first.split(",")
        cells[heading.split(",").index(column)] = cell
        return "\n".join([heading, ",".join(cells), *others]) + "\n"

    spoilt(kind, tmp_path, change)
    refused(kind, tmp_path, words)


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("fault", FILES)
def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path, kind: str, fault: str) -> None:
    """The sentence names the file."""
    change, words = FILES[fault]
    if fault == "a short row" and kind == "services":  # it has one column
        words = "line 4 has 2 cells; expected 1"
    path = spoilt(kind, tmp_path, change)
    assert f"File '{path}'" in refused(kind, tmp_path, words)


@pytest.mark.parametrize("kind", GOOD)
def test_a_column_that_is_missing_is_named(tmp_path: Path, kind: str) -> None:
    """Each of them in turn; one that nobody needs is not missed."""
    text = next(iter(GOOD[kind].files.values()))
    for column in text.splitlines()[0].split(","):
        if column in ("metric", "gpu_spec"):
            continue
        path = spoilt(kind, tmp_path, str)
        path.write_text(text.replace(column, "else", 1), encoding="utf-8")
        assert f"File '{path}': column '{column}'" in refused(kind, tmp_path, "is missing")


@pytest.mark.parametrize("kind", GOOD)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    """Of other bytes, a folder, or not there."""
    path = spoilt(kind, tmp_path, lambda text: text)
    path.write_bytes(b"\xff\xfe\x00\x01")
    refused(kind, tmp_path, "is not UTF-8 text")
    path.unlink()
    refused(kind, tmp_path, "does not exist|expected files")
    path.mkdir()
    refused(kind, tmp_path, "is a directory")


def test_measurements_of_one_batch_size_say_nothing_of_others(tmp_path: Path) -> None:
    """There is no truth between them."""
    spoilt("scalability", tmp_path, lambda text: text.replace(",8,", ",4,"))
    (tmp_path / PLACED).write_text(PLACEMENTS.replace("1,8,0.7,0.1\n", ""), encoding="utf-8")
    refused("scalability", tmp_path, "4 measurements do not span nodes, GPUs and batch sizes")


def test_a_run_of_no_batch_size_is_refused(tmp_path: Path) -> None:
    """The name of its file says it."""
    spoilt("run", tmp_path, lambda text: text)
    for name in ("validation-x.csv", "validation-0.csv", "validation-.csv"):
        (tmp_path / "bert" / name).write_text(EPOCHS, encoding="utf-8")
        refused("run", tmp_path, f"{name}': its name is no validation-EXAMPLES.csv")
        (tmp_path / "bert" / name).unlink()
