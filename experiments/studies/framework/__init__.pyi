from .recorded_task import RecordedTask as RecordedTask
from .records import Record as Record
from .records import Rows as Rows
from .records import columns_of as columns_of
from .records import table_of as table_of
from .reproduction import Plan as Plan
from .reproduction import Reproduction as Reproduction
