from .launcher import Launcher as Launcher
from .launcher import LaunchFailed as LaunchFailed
from .replica_group import kill_replicas as kill_replicas
from .scheduler import LiveScheduler as LiveScheduler
from .scheduler import live_policy as live_policy
