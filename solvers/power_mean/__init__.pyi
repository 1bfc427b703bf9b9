from .hierarchy import maximise_power_mean as maximise_power_mean
from .oracle import Outcome as Outcome
from .oracle import Reply as Reply
from .oracle import Request as Request
from .program_oracle import ProgramOracle as ProgramOracle
from .program_oracle import Task as Task
