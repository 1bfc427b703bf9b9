from .plan_simulator import CompletedPlanJob as CompletedPlanJob
from .plan_simulator import PlanSimulator as PlanSimulator
