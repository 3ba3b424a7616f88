"""These tests are of an image that was built, so they run where ``HOPTRIO_IMAGE`` names one (`make container`);
``HOPTRIO_ENGINE`` is how to call the engine, podman by default."""

import os

collect_ignore = [] if os.environ.get("HOPTRIO_IMAGE") else ["test_image.py"]
