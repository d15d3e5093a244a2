"""Settings of all tests: no example has a time limit, and CI draws the same examples every time.

`make test` draws a quarter of the examples that `make test-more` (``--hypothesis-profile=more``)
draws.
"""

from __future__ import annotations

import os

# Tests run in two processes beside each other: linear algebra with two threads in each would only
# wait for the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

for name, examples in {"levywalk": 25, "more": 100}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )
settings.load_profile("levywalk")
