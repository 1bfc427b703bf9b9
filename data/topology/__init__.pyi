from .topology_file import read_topology as read_topology
from .topology_file import read_wishes as read_wishes
from .topology_file import topology_from_dict as topology_from_dict
from .topology_file import topology_to_dict as topology_to_dict
from .topology_file import write_topology as write_topology
from .tree_rounds import generate_on_tree as generate_on_tree
from .tree_rounds import standard_tree as standard_tree
