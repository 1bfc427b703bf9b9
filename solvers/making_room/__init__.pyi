from .defragment import fewest_moves as fewest_moves
from .defragment import greedy_moves as greedy_moves
from .defragment import move_front as move_front
from .preempt import greedy_preemption as greedy_preemption
from .preempt import least_preemption as least_preemption
