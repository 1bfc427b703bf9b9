from .antman import build_guest_program as build_guest_program
from .gandiva import build_pairing_program as build_pairing_program
