from .plan_simulator import PlanSimulator as PlanSimulator
