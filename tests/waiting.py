"""How tests wait: for an event, and never by the clock; no test measures speed."""

import time

PATIENCE = 600.0  # seconds after which a test counts as hanging


def wait_until(condition):
    """Return the first true answer of ``condition``."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {PATIENCE:.0f} s"
        time.sleep(0.01)
    return found
