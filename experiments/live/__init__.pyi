from .gpu_leases import GpuLeases as GpuLeases
from .gpu_leases import gpus_of_machine as gpus_of_machine
from .launcher import Launcher as Launcher
from .launcher import LaunchFailed as LaunchFailed
from .replica_group import kill_replicas as kill_replicas
from .scheduler import LiveScheduler as LiveScheduler
from .scheduler import live_policy as live_policy
