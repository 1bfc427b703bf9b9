from .best_certificate import best_replay_bound as best_replay_bound
from .day_and_replays import WholeDay as WholeDay
from .day_and_replays import whole_day as whole_day
from .replay_bound import ReplayBound as ReplayBound
from .replay_bound import bound_replays as bound_replays
from .replay_certificate import replay_bound_document as replay_bound_document
from .replay_rounds import rounds_of_replay as rounds_of_replay
