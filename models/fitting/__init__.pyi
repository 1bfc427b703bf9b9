from .fit import Fit as Fit
from .fit import fit_throughput as fit_throughput
from .problem import FitOptions as FitOptions
from .problem import Observations as Observations
from .problem import pad_observations as pad_observations
