from .node_indexed.node_milp import build_node_milp as build_node_milp
