from .program_file import ExportedProgram as ExportedProgram
from .program_file import export_program as export_program
from .round_program import build_program as build_program
from .round_program import build_tree_program as build_tree_program
