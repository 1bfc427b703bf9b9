from .restart import RestartCost as RestartCost
from .restart import restart_cost as restart_cost
from .task import TrainingTask as TrainingTask
from .task import find_task as find_task
from .task import task_digest as task_digest
