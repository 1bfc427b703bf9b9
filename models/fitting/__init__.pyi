from .fit import Fit as Fit
from .fit import fit_throughput as fit_throughput
from .problem import FitOptions as FitOptions
from .problem import Observations as Observations
from .problem import pad_observations as pad_observations
from .step_parts import StepFit as StepFit
from .step_parts import StepObservations as StepObservations
from .step_parts import fit_step_parts as fit_step_parts
