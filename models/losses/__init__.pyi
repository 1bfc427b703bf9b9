from .curve_fitting import spikes as spikes
from .loss_curve import LossCurve as LossCurve
from .loss_forecast import Forecast as Forecast
from .loss_forecast import LossRun as LossRun
from .loss_forecast import forecast as forecast
from .reduction import LossHistory as LossHistory
from .reduction import NormalisedBy as NormalisedBy
from .reduction import loss_reductions as loss_reductions
