"""These tests are of a binary that was built, so they run where ``HOPTRIO_BINARY`` names one (`make binary`)."""

import os

collect_ignore = [] if os.environ.get("HOPTRIO_BINARY") else ["test_binary.py"]
