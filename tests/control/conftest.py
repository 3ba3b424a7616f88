"""A control plane over a ledger in memory."""

from __future__ import annotations

import pytest

from tests.support.controlling import controlling


@pytest.fixture
async def control():
    async with controlling() as control:
        yield control
