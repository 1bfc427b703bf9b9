from .column_feasibility import column_violations as column_violations
from .mode_columns import ModeColumns as ModeColumns
from .round_columns import NEVER_RAN as NEVER_RAN
from .round_columns import RoundColumns as RoundColumns
from .utilities_by_kind import ColumnUtilities as ColumnUtilities
from .utilities_by_kind import column_utilities as column_utilities
from .utilities_by_mode import ModeColumnUtilities as ModeColumnUtilities
from .utilities_by_mode import mode_column_utilities as mode_column_utilities
