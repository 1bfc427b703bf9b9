from .room_plan import Gang as Gang
from .room_plan import Move as Move
from .room_plan import RoomPlan as RoomPlan
from .room_plan import barred_nodes as barred_nodes
from .room_plan import held_gpus as held_gpus
from .room_plan import require_costs as require_costs
from .room_plan import room_violations as room_violations
from .room_plan import usable_nodes as usable_nodes
