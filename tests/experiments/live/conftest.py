"""Ray cluster of the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.live.ray_nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Three nodes of four GPUs, of two types."""
    found = Nodes()
    yield found
    found.close()
