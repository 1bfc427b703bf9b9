from .recorded_task import RecordedTask as RecordedTask
from .reproduction import Plan as Plan
from .reproduction import Reproduction as Reproduction
from .reproduction import Rows as Rows
