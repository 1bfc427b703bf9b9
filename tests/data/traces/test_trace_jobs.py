"""Readers of published traces, on made samples."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.traces import (
    read_acme_jobs,
    read_helios_cluster,
    read_helios_jobs,
    read_pai_jobs,
    read_philly_cluster,
    read_philly_jobs,
    read_spot_cluster,
    read_spot_jobs,
    summarise_trace,
    write_job_list,
)
from goodalloc.data.workloads.philly import draw_from_philly, read_philly
from tests.data.traces import made_traces as made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.data.traces.trace import Trace


def test_a_philly_job_has_the_gpus_of_its_last_attempt_and_the_seconds_of_all(
    tmp_path: Path,
) -> None:
    trace = read_philly_jobs(made.write_philly(tmp_path / "cluster_job_log"))
    first, fifth = trace.table.to_dict("records")
    assert (first["name"], first["gpus"], first["workers"]) == ("application_1", 16.0, 2)
    assert (first["waited"], first["seconds"]) == (30.0, 60.0 + 3600.0)
    assert (first["state"], first["tenant"]) == ("completed", "ee9e8c")
    assert (fifth["name"], fifth["seconds"], fifth["state"]) == (
        "application_5",
        600.0,
        "cancelled",
    )
    assert trace.left_out == {
        "never ran": 1,
        "have no time of an attempt": 1,
        "end before they start": 1,
        "have no GPU": 1,
    }


def test_philly_machines_are_groups_of_equal_ones(tmp_path: Path) -> None:
    path = tmp_path / "cluster_machine_list"
    path.write_text(made.PHILLY_MACHINES)
    groups = read_philly_cluster(path).groups
    assert [(group.name, group.nodes, group.gpus) for group in groups] == [
        ("8g-24GB", 2, 8),
        ("2g-12GB", 1, 2),
    ]


def test_helios_jobs_come_in_order_of_submission(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(made.HELIOS)
    trace = read_helios_jobs(path)
    assert trace.table.name.tolist() == ["1", "2", "3"]
    assert trace.table.submission.tolist() == [0.0, 26.0, 3600.0]
    assert trace.table.state.tolist() == ["completed", "cancelled", "failed"]
    assert trace.table.workers.tolist() == [1, 1, 2]
    assert trace.left_out == {
        "have no GPU": 1,
        "ran for no second": 1,
        "have another state": 1,
    }
    jobs = trace.rigid_jobs()
    assert [(job.name, job.submission, job.replicas, job.seconds) for job in jobs][2] == (
        "3",
        3600.0,
        16,
        7200.0,
    )


def test_the_size_of_helios_is_that_of_a_day(tmp_path: Path) -> None:
    path = tmp_path / "cluster_gpu_number.csv"
    path.write_text(made.HELIOS_GPUS)
    assert read_helios_cluster(path, "2020-09-01").num_nodes == 18
    smaller = read_helios_cluster(path, "2020-08-31", "vcB")
    assert [(group.nodes, group.gpus) for group in smaller.groups] == [(7, 8), (1, 4)]
    with pytest.raises(ValueError, match="'vcA' has no GPU on 2020-08-31"):
        read_helios_cluster(path, "2020-08-31", "vcA")
    with pytest.raises(ValueError, match="date '2020-09-31' is not there"):
        read_helios_cluster(path, "2020-09-31")
    with pytest.raises(ValueError, match="column 'vcC' is missing"):
        read_helios_cluster(path, "2020-09-01", "vcC")


def test_acme_jobs_have_kinds_and_times_with_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "trace_kalos.csv"
    path.write_text(made.KALOS)
    trace = read_acme_jobs(path)
    assert trace.table.kind.tolist() == ["Pretrain", "Evaluation"]
    assert str(trace.begin) == "2023-05-17 11:00:58"
    assert trace.table.waited.tolist() == pytest.approx([10.0, np.nan], nan_ok=True)
    assert trace.left_out == {"have no time of submission": 1}


def write_pai(folder: Path, *, tasks: str = made.PAI_TASKS, heading: bool = False) -> Path:
    """Write the two tables of PAI."""
    first = (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
    )
    (folder / "pai_task_table.csv").write_text(f"{first}\n" * heading + tasks)
    (folder / "pai_job_table.csv").write_text(made.PAI_JOBS)
    return folder


@pytest.mark.parametrize("heading", [False, True])
def test_a_pai_job_has_the_gpus_of_its_tasks(tmp_path: Path, heading: bool) -> None:
    trace = read_pai_jobs(write_pai(tmp_path, heading=heading))
    second, first = trace.table.to_dict("records")
    assert (first["name"], first["gpus"], first["workers"], first["cores"]) == ("job1", 1.0, 2, 14)
    assert (first["waited"], first["seconds"], first["gpu_type"]) == (5.0, 110.0, "T4")
    assert (second["name"], second["gpus"], second["gpu_type"]) == ("job2", 1.25, "MISC|V100")
    assert (second["submission"], first["submission"]) == (0.0, 55.0)
    assert trace.left_out == {
        "have no GPU": 1,
        "did not end": 1,
        "have a task without times": 1,
    }


def test_pai_tasks_of_no_job_are_counted(tmp_path: Path) -> None:
    tasks = made.PAI_TASKS + "job9,worker,1.0,Terminated,60.0,70.0,600.0,29.3,100.0,T4\n"
    trace = read_pai_jobs(write_pai(tmp_path, tasks=tasks))
    assert trace.left_out["are in the table of tasks only"] == 1
    assert len(trace) == 2


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "cluster_log.csv.gz").write_bytes(gzip.compress(made.HELIOS.encode()))
    assert len(read_helios_jobs(tmp_path / "cluster_log.csv.gz")) == 3
    log = json.dumps(made.PHILLY).encode()
    (tmp_path / "cluster_job_log.gz").write_bytes(gzip.compress(log))
    assert len(read_philly_jobs(tmp_path / "cluster_job_log.gz")) == 2
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(made.HELIOS.encode())[:-20])
    with pytest.raises(ValueError, match="cannot be read"):
        read_helios_jobs(tmp_path / "cut.csv.gz")


def test_requests_of_spot_jobs_are_those_of_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    path.write_text(made.SPOT)
    trace = read_spot_jobs(path)
    assert trace.table.gpus.tolist() == [1.0, 16.0, 0.5]
    assert trace.table.cores.tolist() == [20.0, 240.0, 4.0]
    assert trace.table.kind.tolist() == ["HP", "Spot", "Spot"]
    assert [job.replicas for job in trace.rigid_jobs()] == [1, 16, 1]
    assert trace.left_out == {"have no GPU": 1}


def test_spot_nodes_are_groups_of_equal_ones(tmp_path: Path) -> None:
    path = tmp_path / "node_info_df.csv"
    path.write_text(made.SPOT_NODES)
    cluster = read_spot_cluster(path)
    assert cluster.type_gpus == {"A10": 2, "A100-SXM4-80GB": 8, "": 0}
    assert cluster.num_nodes == 4
    assert dict(cluster.groups[0].resources) == {"cpu": 128.0}


def test_the_published_nodes_of_the_spot_cluster_are_read(reference: Path) -> None:
    cluster = read_spot_cluster(reference / "alibaba-spot-gpu-2026" / "node_info_df.csv")
    assert (cluster.num_nodes, cluster.num_gpus) == (4278, 10_412)
    assert cluster.type_gpus["H800"] == 8 * 219


def test_workloads_are_drawn_from_the_list_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(made.HELIOS)
    trace = read_helios_jobs(path)
    write_job_list(trace, tmp_path / "jobs.csv")
    table = read_philly(tmp_path / "jobs.csv")
    assert table.duration.tolist() == [3600.0, 249.0, 7200.0]
    assert table.second.tolist() == [67261, 67287, 70861]
    drawn = draw_from_philly(table, seed=0, jobs=3, start=18, hours=2)
    assert len(drawn) == 3


def test_a_summary_counts_every_job_once(tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    path.write_text(made.SPOT)
    *ranges, every = summarise_trace(read_spot_jobs(path))
    assert [row.gpus for row in ranges] == ["part of one", "1", "9 to 16"]
    assert sum(row.jobs for row in ranges) == every.jobs == 3
    assert sum(row.gpu_hours_percent for row in ranges) == pytest.approx(100.0)
    assert np.isnan(every.completed_percent)


READERS: dict[str, tuple[Callable[[Path], Trace], str]] = {
    "helios": (read_helios_jobs, made.HELIOS),
    "acme": (read_acme_jobs, made.KALOS),
    "spot": (read_spot_jobs, made.SPOT),
}


@pytest.mark.parametrize(
    ("trace", "old", "new", "sentence"),
    [
        (
            "helios",
            "1,4,1,COM",
            "one,4,1,COM",
            "line 2: gpu_num is 'one'; expected a finite number",
        ),
        ("helios", "1,4,1,COM", "-1,4,1,COM", "line 2: gpu_num is '-1'; expected .* from 0 to"),
        ("helios", "1,4,1,COM", "1e300,4,1,COM", "line 2: gpu_num is '1e300'; expected .* from 0"),
        ("helios", "1,4,1,COM", "1,1e300,1,COM", "line 2: cpu_num is '1e300'; expected .* from 0"),
        ("helios", ",3600,1\n", ",1e300,1\n", "line 2: duration is '1e300'; expected"),
        ("helios", "cpu_num", "gpu_num", "column 'gpu_num' is there twice"),
        ("spot", "1,16,9589663", "1e308,16,9589663", "line 3: gpu_request is '1e308'; expected"),
        ("helios", "1,4,1,COM", "inf,4,1,COM", "line 2: gpu_num is 'inf'"),
        ("helios", "2020-06-09 19:41:01", "yesterday", "line 3: submit_time is 'yesterday'"),
        ("helios", "gpu_num", "gpus", "column 'gpu_num' is missing"),
        ("helios", "\n2,", "\n1,", "job '1' is there twice"),
        ("acme", "8,64,960", "8,64", "line 2 has 10 cells; expected 11"),
        ("acme", "8,64,960", "8,64,960,1", "line 2 has 12 cells; expected 11"),
        ("spot", "\n437262", "\n\nx,437262", "line 5 has 10 cells; expected 9"),
        ("acme", ",type,", ",kind,", "column 'type' is missing"),
        ("helios", "1,4,1,COM", "1,4,1e30,COM", "line 2: node_num is '1e30'; expected .* from 0"),
        ("spot", "1,16,9589663", "1,1000001,9589663", "line 3: worker_num is '1000001'; expected"),
        ("spot", "16,9589663", "16,4000000001", "line 3: submit_time is '4000000001'; expected"),
        ("spot", "2764799", "long", "line 2: duration is 'long'"),
        ("spot", "worker_num", "workers", "column 'worker_num' is missing"),
    ],
)
def test_a_bad_cell_is_refused_by_its_place(
    trace: str, old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    reader, text = READERS[trace]
    path = tmp_path / "log.csv"
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=sentence) as caught:
        reader(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("trace", READERS)
def test_files_that_are_no_trace_are_refused(trace: str, tmp_path: Path) -> None:
    reader, text = READERS[trace]
    path = tmp_path / "log.csv"
    with pytest.raises(ValueError, match="cannot be read"):
        reader(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"log\.csv"):
        reader(path)
    path.write_text("")
    with pytest.raises(ValueError, match="it is empty; expected a line that names the columns"):
        reader(path)
    path.write_text(text.splitlines()[0] + "\n")
    with pytest.raises(ValueError, match=r"no job is left \(it has no rows\)"):
        reader(path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"Pass"', '"Done"', "status is 'Done'; expected Pass, Killed, Failed"),
        ('"jobid"', '"job"', "entry 1: jobid is missing"),
        ('"vc"', '"cluster"', r"entry 1 \(job 'application_1'\): vc is missing"),
        ('"detail"', '"where"', "an attempt is .*; expected start_time, end_time and detail"),
        ("2017-10-07 01:12:09", "at night", "start_time is 'at night'; expected a time"),
        ("2017-10-07 01:11:39", "at night", "submitted_time is 'at night'; expected a time"),
        ('"status": "Pass"', '"status": ["Pass"]', r"status is .*Pass.*; expected Pass, Killed"),
        ('"attempts": [', '"attempts": 3, "rest": [', "attempts is 3; expected a list"),
        ('"gpus": [', '"gpus": "gpu0", "rest": [', "an attempt is .*; expected start_time"),
        ("[{", "{", "no readable JSON"),
    ],
)
def test_a_malformed_philly_log_is_refused(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(made.PHILLY).replace(old, new, 1))
    with pytest.raises(ValueError, match=sentence):
        read_philly_jobs(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="expected a list of jobs"):
        read_philly_jobs(path)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("1e30,Terminated,60.0,70.0,600.0,29.3,100.0,T4", "inst_num is '1e30'; expected"),
        ("1.0,Terminated,1e300,70.0,600.0,29.3,100.0,T4", "start_time is '1e300'; expected"),
        ("1.0,Terminated,60.0,70.0,1e300,29.3,100.0,T4", "plan_cpu is '1e300'; expected"),
        ("1.0,Terminated,60.0,70.0,600.0,29.3,-1,T4", "plan_gpu is '-1'; expected"),
        ("1.0,Terminated,60.0", "cells; expected 10"),
    ],
)
def test_tasks_of_pai_that_make_no_sense_are_refused(
    row: str, sentence: str, tmp_path: Path
) -> None:
    write_pai(tmp_path, tasks=f"{made.PAI_TASKS}job9,worker,{row}\n")
    with pytest.raises(ValueError, match=rf"pai_task_table\.csv': line \d+.*{sentence}"):
        read_pai_jobs(tmp_path)


@pytest.mark.parametrize("zone", ["Z", "+08:00", "+0800", "+08", "-03"])
def test_times_are_those_of_the_clock_in_any_zone(zone: str, tmp_path: Path) -> None:
    """Zones may change in a file, as in summer; dates alone have none."""
    path = tmp_path / "log.csv"
    text = made.HELIOS.replace("2020-06-09 18:41:01", f"2020-06-09 18:41:01{zone}")
    path.write_text(text.replace("2020-06-09 19:41:01", "2020-06-09 19:41:01+09"))
    there = tmp_path / "plain.csv"
    there.write_text(made.HELIOS)
    found, plain = read_helios_jobs(path), read_helios_jobs(there)
    assert found.begin == plain.begin
    assert found.table.equals(plain.table)


@pytest.mark.parametrize("reader", [read_helios_jobs, read_philly_jobs])
def test_a_pipe_is_refused(reader: Callable[[Path], Trace], tmp_path: Path) -> None:
    """Which might have no end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"cannot be read \(it is no regular file\)"):
        reader(path)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A byte of a compressed log is another one."""
    path = tmp_path / "log.csv.gz"
    data = bytearray(gzip.compress(made.HELIOS.encode() * 20))
    data[40] ^= 0xFF
    path.write_bytes(data)
    for reader in (read_helios_jobs, read_philly_jobs):
        with pytest.raises(ValueError, match=r"log\.csv\.gz' cannot be read|it cannot be read"):
            reader(path)


@pytest.mark.parametrize("cell", ["", "2.5"])
def test_a_machine_without_a_whole_number_of_gpus_is_refused(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster_machine_list"
    path.write_text(f"machineId,number of GPUs,single GPU mem\nm1,{cell},24GB\n")
    with pytest.raises(ValueError, match=r"line 2: number of GPUs is .*; expected a whole number"):
        read_philly_cluster(path)


def test_gpus_of_one_machine_that_is_listed_twice_are_added(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    entry = json.loads(json.dumps(made.PHILLY[0]))
    part = {"ip": "m1", "gpus": ["gpu0"]}
    entry["attempts"][0]["detail"] = [part, {"ip": "m1", "gpus": ["gpu1", "gpu2"]}]
    entry["attempts"] = entry["attempts"][:1]
    path.write_text(json.dumps([entry]))
    (row,) = read_philly_jobs(path).table.itertuples()
    assert (row.gpus, row.workers) == (3, 1)
