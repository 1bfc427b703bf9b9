"""Made samples of published traces, by their documented columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from pathlib import Path

PHILLY_MACHINES = "machineId,number of GPUs,single GPU mem\nm1,8, 24GB\nm2,2,12GB\nm3,8, 24GB\n"

HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u1,vcA,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:02,,3600,1\n"
    "3,u2,vcB,16,64,2,TIMEOUT,2020-06-09 19:41:01,,,7200,60\n"
    "2,u2,vcB,4,16,1,CANCELLED,2020-06-09 18:41:27,,,249,0\n"
    "4,u3,vcB,0,64,1,FAILED,2020-06-09 18:41:27,,,249,0\n"
    "5,u3,vcB,8,64,1,COMPLETED,2020-06-09 18:41:27,,,0,0\n"
    "6,u3,vcB,8,64,1,SUSPENDED,2020-06-09 18:41:27,,,10,0\n"
)

HELIOS_GPUS = "date,vcA,vcB,total\n2020-08-31,0,60,60\n2020-09-01,64,80,144\n"

KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,duration,queue\n"
    "dlc1,uf794,8,64,960,1000,Pretrain,FAILED,2023-05-17 11:00:58+00:00,18,10.0\n"
    "dlc2,uf794,1,1,12,100,Evaluation,COMPLETED,2023-05-17 11:28:42+00:00,82,\n"
    "dlc3,uf794,1,1,12,100,Evaluation,COMPLETED,,82,\n"
)

SPOT = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
    "job_type\n"
    "239255,13,A10,20,1,1,0,2764799,HP\n"
    "437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot\n"
    "437262,57,A10,4,0.5,1,9589663,60,Spot\n"
    "437263,57,,4,0,1,9589663,60,Spot\n"
)

SPOT_NODES = (
    "gpu_model,gpu_capacity_num,cpu_num,node_name\n"
    "A10,1,128,0\nA100-SXM4-80GB,8,128,1\nA10,1,128,2\n,0,64,3\n"
)

PAI_TASKS = (
    "job1,ps,1.0,Terminated,100.0,200.0,600.0,29.3,0.0,\n"
    "job1,worker,2.0,Terminated,110.0,210.0,400.0,29.3,50.0,T4\n"
    "job2,tensorflow,1.0,Failed,50.0,80.0,600.0,29.3,100.0,V100\n"
    "job2,evaluator,1.0,Failed,60.0,85.0,600.0,29.3,25.0,MISC\n"
    "job3,worker,1.0,Running,60.0,,600.0,29.3,100.0,V100\n"
    "job4,worker,1.0,Terminated,60.0,70.0,600.0,29.3,,\n"
    "job5,worker,1.0,Terminated,60.0,,600.0,29.3,100.0,P100\n"
)
PAI_JOBS = (
    "job1,i1,u1,Terminated,95.0,210.0\njob2,i2,u2,Failed,40.0,85.0\njob3,i3,u1,Running,60.0,\n"
    "job4,i4,u1,Terminated,60.0,70.0\njob5,i5,u1,Terminated,60.0,70.0\n"
)


def attempt(start: str | None, end: str | None, **machines: int) -> dict[str, Any]:
    """An attempt of a Philly job on GPUs of machines."""
    detail = [
        {"ip": machine, "gpus": [f"gpu{index}" for index in range(gpus)]}
        for machine, gpus in machines.items()
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(name: str, *attempts: dict[str, Any], status: str = "Pass") -> dict[str, Any]:
    """A job of Philly's log."""
    return {
        "status": status,
        "vc": "ee9e8c",
        "jobid": name,
        "attempts": list(attempts),
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    }


PHILLY = [
    philly_job(
        "application_1",
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", m47=8),
        attempt("2017-10-07 02:00:00", "2017-10-07 03:00:00", m412=8, m413=8),
    ),
    philly_job("application_2", attempt("2017-10-07 01:12:09", None, m1=1), status="Killed"),
    philly_job("application_3", status="Failed"),
    philly_job("application_4", attempt("2017-10-07 01:20:00", "2017-10-07 01:10:00", m1=1)),
    philly_job(
        "application_5",
        attempt("2017-10-07 01:20:00", "2017-10-07 01:30:00", m1=2),
        attempt("None", None, m1=2),
        status="Killed",
    ),
    philly_job("application_6", attempt("2017-10-07 01:20:00", "2017-10-07 01:30:00")),
]


def write_philly(path: Path) -> Path:
    """Write Philly's log."""
    path.write_text(json.dumps(PHILLY))
    return path


def server(name: str, rack: str | None, **changes: Any) -> dict[str, Any]:
    """A server of an hour."""
    row = {
        "server_id": name,
        "cluster_id": "c1",
        "asw_id": rack,
        "gpu_spec_public": "H800",
        "gpu_count": 8.0,
    }
    return row | changes


def pod(name: str, place: str, gpus: float, workload: str | None = None, **changes: Any) -> Any:
    """A pod of an hour."""
    row = {
        "pod_id": name,
        "workload_id": workload,
        "server_id": place,
        "cluster_id": "c1",
        "state_public": "Running",
        "gpu_spec_public": "H800",
        "gpu_request": gpus,
    }
    return row | changes


HOUR_SERVERS = [
    server("s1", "asw1"),
    server("s2", "asw1"),
    server("s3", "asw2"),
    server("s4", None, gpu_count=4.0),
    server("s5", "asw2", gpu_count=0.0),
]
HOUR_PODS = [
    pod("p1", "s1", 8.0, "gang"),
    pod("p2", "s3", 8.0, "gang"),
    pod("p3", "s2", 2.0),
    pod("p4", "s2", 4.0, "waits", state_public="Pending"),
    pod("p5", "s4", 4.0, "waits", state_public="Pending"),
    pod("p6", "s2", 0.5),
    pod("p7", "s2", 1.0, state_public="Failed"),
    pod("p8", "s2", 7.0),
    pod("p9", "s2", 1.0, "gang", state_public="Pending"),
    pod("p10", "s9", 1.0),
    pod("p11", "s4", 0.0),
    pod("p12", "s2", float("nan")),
]


def write_hour(
    folder: Path,
    servers: list[dict[str, Any]] | None = None,
    pods: list[dict[str, Any]] | None = None,
) -> Path:
    """Write the tables of day 3, hour 7."""
    for table, rows in (("server", servers or HOUR_SERVERS), ("pod", pods or HOUR_PODS)):
        path = folder / f"asi_opensource_{table}_hourly" / "day=3" / "hour=07"
        path.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_parquet(path / "part-000.parquet")
    return folder
