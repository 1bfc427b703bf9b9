from .price_bound import Multipliers as Multipliers
from .price_bound import job_bound as job_bound
from .price_bound import unit_costs as unit_costs
from .time_indexed import TimeIndexed as TimeIndexed
from .time_indexed import decode_schedule as decode_schedule
from .time_indexed import time_indexed_program as time_indexed_program
from .time_indexed_pyomo import time_indexed_model as time_indexed_model
