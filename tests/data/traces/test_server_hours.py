"""Rounds on trees from an hour of servers and pods, on made samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.traces import read_server_hour
from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.topology.exact_tree import solve_tree
from tests.data.traces import made_traces as made

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow", reason="the extra parquet is not installed")


def test_an_hour_is_a_round_on_racks(tmp_path: Path) -> None:
    found = read_server_hour(made.write_hour(tmp_path), 3, 7)
    instance = found.round.instance
    assert found.servers == ("s1", "s2", "s3", "s4")
    assert found.round.topology.domains == (("asw1", "asw1", "asw2", "server-s4"),)
    assert instance.cluster.node_gpus.tolist() == [8, 8, 8, 4]
    held = {job.name: (job.placement, job.min_replicas) for job in instance.jobs}
    assert held == {
        "gang": (((0, 8), (2, 8)), 16),
        "pod-p3": (((1, 2),), 2),
        "waits": ((), 8),
    }
    assert violations(instance, instance.current) == ()


def test_pods_that_are_not_in_the_round_are_counted(tmp_path: Path) -> None:
    assert read_server_hour(made.write_hour(tmp_path), 3, 7).left_out == {
        "neither run nor wait": 1,
        "do not say how many GPUs they have": 1,
        "share a GPU": 1,
        "run on a server that is not listed": 1,
        "wait for a job that runs": 1,
        "hold more than their server has": 1,
    }


def test_an_hour_is_decided_exactly(tmp_path: Path) -> None:
    round_ = read_server_hour(made.write_hour(tmp_path), 3, 7).round
    result = solve_tree(round_)
    assert result.status == "optimal"
    assert result.allocation is not None
    assert result.allocation.job_replicas.tolist() == [16, 2, 8]


def test_one_of_several_clusters_or_types_is_chosen(tmp_path: Path) -> None:
    servers = [*made.HOUR_SERVERS, made.server("t1", "asw9", cluster_id="c2")]
    pods = [*made.HOUR_PODS, made.pod("q1", "t1", 3.0, cluster_id="c2")]
    made.write_hour(tmp_path, servers, pods)
    with pytest.raises(ValueError, match="cluster: none is given; expected one of c1, c2"):
        read_server_hour(tmp_path, 3, 7)
    with pytest.raises(ValueError, match="cluster: 'c3' is not there; expected one of c1, c2"):
        read_server_hour(tmp_path, 3, 7, cluster="c3")
    second = read_server_hour(tmp_path, 3, 7, cluster="c2").round.instance
    assert [job.name for job in second.jobs] == ["pod-q1"]
    servers[-1]["cluster_id"], servers[-1]["gpu_spec_public"] = "c1", "A10"
    made.write_hour(tmp_path, servers, pods)
    with pytest.raises(ValueError, match="type of GPU: none is given; expected one of A10, H800"):
        read_server_hour(tmp_path, 3, 7)
    assert read_server_hour(tmp_path, 3, 7, gpu_type="A10").servers == ("t1",)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gpu_count": 7.5}, "server_id 's2': gpu_count is '7.5'; expected a whole number"),
        ({"gpu_count": -1.0}, "server_id 's2': gpu_count is '-1.0'; expected a whole number"),
        ({"gpu_count": float("inf")}, "gpu_count is 'inf'; expected a whole number"),
        ({"gpu_count": 100_001.0}, "gpu_count is '100001.0'; expected .* from 0 to 100000"),
    ],
)
def test_a_bad_number_is_refused(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    made.write_hour(tmp_path, [made.server("s1", "asw1"), made.server("s2", "asw1", **changes)])
    with pytest.raises(ValueError, match=sentence):
        read_server_hour(tmp_path, 3, 7)


@pytest.mark.parametrize("gpus", ["two", float("inf"), -1.0, 100_001.0])
def test_a_bad_request_is_refused(gpus: Any, tmp_path: Path) -> None:
    pods = [made.pod("p1", "s1", gpus)]
    made.write_hour(tmp_path, None, pods)
    with pytest.raises(ValueError, match=f"pod_id 'p1': gpu_request is '{gpus}'; expected"):
        read_server_hour(tmp_path, 3, 7)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    pods = [{key: value for key, value in made.pod("p", "s1", 1.0).items() if key != "workload_id"}]
    made.write_hour(tmp_path, None, pods)
    with pytest.raises(ValueError, match="column 'workload_id' is missing"):
        read_server_hour(tmp_path, 3, 7)


def test_a_gang_of_many_servers_runs_and_another_waits(tmp_path: Path) -> None:
    """Twenty whole servers each, one of them where it runs, on forty."""
    servers = [made.server(f"s{index:02}", f"asw{index // 8}") for index in range(40)]
    pods = [made.pod(f"r{index:02}", f"s{index:02}", 8.0, "runs") for index in range(20)]
    pods += [
        made.pod(f"w{index:02}", "", 8.0, "waits", state_public="Pending", server_id=None)
        for index in range(20)
    ]
    round_ = read_server_hour(made.write_hour(tmp_path, servers, pods), 3, 7).round
    result = solve_tree(round_)
    assert result.allocation is not None
    assert result.allocation.job_replicas.tolist() == [160, 160]
    assert result.allocation.unchanged(round_.instance.current).tolist() == [True, False]


def test_jobs_that_share_a_server_in_the_hour_may_do_so(tmp_path: Path) -> None:
    servers = [made.server(f"s{index}", "asw", gpu_count=4.0) for index in range(3)]
    pods = [
        made.pod("a1", "s0", 4.0, "a"),
        made.pod("a2", "s1", 2.0, "a"),
        made.pod("b1", "s1", 2.0, "b"),
        made.pod("b2", "s2", 4.0, "b"),
    ]
    instance = read_server_hour(made.write_hour(tmp_path, servers, pods), 3, 7).round.instance
    assert violations(instance, instance.current) == ()
    assert instance.current.job_replicas.tolist() == [6, 6]


def test_hours_that_are_not_there_are_refused(tmp_path: Path) -> None:
    made.write_hour(tmp_path)
    with pytest.raises(ValueError, match=r"day=4.*there is no such file"):
        read_server_hour(tmp_path, 4, 7)
    with pytest.raises(ValueError, match="Hour is 24; expected an integer"):
        read_server_hour(tmp_path, 3, 24)
    (tmp_path / "asi_opensource_pod_hourly/day=3/hour=07/part-000.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"part-000\.parquet"):
        read_server_hour(tmp_path, 3, 7)


def test_an_hour_without_jobs_is_refused(tmp_path: Path) -> None:
    made.write_hour(tmp_path, None, [made.pod("p6", "s2", 0.5)])
    with pytest.raises(ValueError, match=r"no job is left \(1 share a GPU\)"):
        read_server_hour(tmp_path, 3, 7)
