from .bound_file import bound_document as bound_document
from .bound_file import problem_document as problem_document
from .bound_file import schedule_document as schedule_document
from .day import HindsightDay as HindsightDay
from .day import look_back as look_back
from .problem_of_replay import replayed_problem as replayed_problem
from .problem_of_replay import true_training as true_training
