from .agent.options import AgentOptions as AgentOptions
from .agent.training_agent import TrainingAgent as TrainingAgent
from .gap.comparison import compare as compare
from .replay.replay_conditions import Setting as Setting
from .replay.simulator import Simulator as Simulator
from .reporting.result_tables import load_results as load_results
