from .alike_nodes import told_apart as told_apart
from .column_names import decode_columns as decode_columns
from .node_extremes import whose_cost as whose_cost
from .node_milp import build_node_milp as build_node_milp
from .node_milp import decode as decode
from .node_milp import node_choices as node_choices
from .node_program import build_node_program as build_node_program
from .node_program import decode_nodes as decode_nodes
