from .alpha_points import alpha_point_worths as alpha_point_worths
from .alpha_points import end_chances as end_chances
from .exact_windows import DecidedWindows as DecidedWindows
from .exact_windows import WindowSearch as WindowSearch
from .exact_windows import decide_windows as decide_windows
