from .plan_tables import read_estimated_plans as read_estimated_plans
from .plan_tables import read_measured_times as read_measured_times
from .plan_tables import times_of as times_of
from .plan_traces import arena_cluster as arena_cluster
from .plan_traces import read_plan_trace as read_plan_trace
from .plan_workload import draw_plan_jobs as draw_plan_jobs
from .shipped_plans import shipped_plan_model as shipped_plan_model
from .shipped_plans import shipped_plan_times as shipped_plan_times
