from .known_work import RemainingWorths as RemainingWorths
from .restarting_schedule import RestartingScheduler as RestartingScheduler
from .rolling_plan import RollingWorths as RollingWorths
from .round_knapsack import best_numbers as best_numbers
from .round_knapsack import gains as gains
from .worth_policy import Appraiser as Appraiser
from .worth_policy import PlannedWorths as PlannedWorths
from .worth_policy import WorthPolicy as WorthPolicy
