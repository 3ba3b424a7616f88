"""The pages render what the ledger has, escaped, and change it by forms."""

from __future__ import annotations

import pytest
