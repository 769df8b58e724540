"""What all tests have."""

import os

os.environ["ORDERCAST_PURE"] = "1"  # tests replace methods, which compiled classes do not allow

pytest_plugins = ["support.harness.plugin"]
