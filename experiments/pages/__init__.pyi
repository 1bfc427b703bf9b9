from .gap_profiles import gap_page as gap_page
from .gpus_of_nodes import round_page as round_page
from .jobs_over_time import replay_page as replay_page
