from .allox import build_matching as build_matching
from .allox import place_costs as place_costs
from .allox import places_of as places_of
from .allox import schedule_of as schedule_of
from .nash_product import decode_bundles as decode_bundles
from .nash_product import nash_program as nash_program
