from .oracle import ModeOracle as ModeOracle
from .packing_cut import CutFinder as CutFinder
from .pattern_dive import PatternDive as PatternDive
from .pattern_master import PatternMaster as PatternMaster
