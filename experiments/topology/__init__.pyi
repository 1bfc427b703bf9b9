from .tree_job import TreeJob as TreeJob
from .tree_replay import TreeReplay as TreeReplay
from .tree_simulator import TreeSimulator as TreeSimulator
