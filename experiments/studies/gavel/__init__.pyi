from .rate_simulator import Completed as Completed
from .rate_simulator import RateSimulator as RateSimulator
