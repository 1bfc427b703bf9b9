from .offline_problem import OfflineJob as OfflineJob
from .offline_problem import OfflineProblem as OfflineProblem
from .offline_problem import Supply as Supply
from .offline_problem import Training as Training
from .offline_schedule import OfflineSchedule as OfflineSchedule
from .offline_schedule import Segment as Segment
from .offline_schedule import completion_times as completion_times
from .offline_schedule import schedule_violations as schedule_violations
