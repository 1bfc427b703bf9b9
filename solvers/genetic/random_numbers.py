"""Cheap random numbers for every cell of every generation of the genetic algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from jax import Array


#: 2**32 over the golden ratio, an odd number: multiplication by it spreads neighbouring integers
#: over all 32 bits (Fibonacci hashing; Knuth, The Art of Computer Programming, section 6.4).
GOLDEN_FACTOR = 0x9E3779B9


def noise(counter: Array, key: Array) -> Array:
    """Return 32 random bits for every counter (uint32), from two words of key.

    Two rounds of multiply and xor-shift, with a word of key before each. A cryptographic generator
    for every cell of every generation would cost more than all the rest of the algorithm; the keys
    come from `jax.random`, fresh for every job and generation.
    """
    bits: Array = counter * jnp.uint32(GOLDEN_FACTOR) + key[0]
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
    bits = bits ^ key[1]
    bits = (bits ^ (bits >> 15)) * jnp.uint32(0x846CA68B)
    return bits ^ (bits >> 16)


def uniform(counter: Array, key: Array) -> Array:
    """Return a uniform number in [0, 1) for every counter, in steps of 2**-24."""
    drawn: Array = (noise(counter, key) >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    return drawn


def below(probability: float) -> Array:
    """Return the threshold that a uniform 32-bit number stays below with a given probability."""
    return jnp.asarray(min(round(probability * 2**32), 2**32 - 1), jnp.uint32)


def counted(members: int, nodes: int) -> Array:
    """Return a counter for every (member, node)."""
    return lax.iota(jnp.uint32, members * nodes).reshape(members, nodes)
