from .auctions import draw_auction as draw_auction
from .loss_jobs import LossJob as LossJob
from .loss_jobs import draw_loss_jobs as draw_loss_jobs
from .machine_jobs import Arrivals as Arrivals
from .machine_jobs import draw_arrivals as draw_arrivals
