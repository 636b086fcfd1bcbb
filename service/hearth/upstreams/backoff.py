"""When a server that failed may be started again. Pure: the caller tells the time."""

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
# A server that ran this long is healthy: its next failure counts as the first.
STABLE_SECONDS = 30.0


class Backoff:
    """The first failure is forgiven at once; each further one doubles the pause."""

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at = 0.0

    def failed(self, now: float, ran_for: float) -> None:
        """Note a failure of a server that had run so many seconds."""
        self.failures = 1 if ran_for >= STABLE_SECONDS else self.failures + 1
        exponent = self.failures - 2
        pause = 0.0 if exponent < 0 else min(FIRST_DELAY_SECONDS * 2**exponent, LONGEST_DELAY_SECONDS)
        self.retry_at = now + pause

    def remaining(self, now: float) -> float:
        """Seconds until the next start is allowed; 0 when it is."""
        return max(0.0, self.retry_at - now)
