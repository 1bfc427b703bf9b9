from .service_knapsack import service_choices as service_choices
from .service_on_nodes import PodChoices as PodChoices
from .service_on_nodes import PodCut as PodCut
from .service_on_nodes import build_service_program as build_service_program
from .service_on_nodes import pod_choices as pod_choices
