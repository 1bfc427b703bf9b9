from .defragment import fewest_moves as fewest_moves
from .defragment import greedy_moves as greedy_moves
from .defragment import move_front as move_front
from .preempt import greedy_preemption as greedy_preemption
from .preempt import least_preemption as least_preemption
from .within_regions import fewest_moves_within as fewest_moves_within
from .within_regions import least_preemption_within as least_preemption_within
