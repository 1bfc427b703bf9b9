from .price_search import SteadyBound as SteadyBound
from .price_search import steady_jobs_bound as steady_jobs_bound
