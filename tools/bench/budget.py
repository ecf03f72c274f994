"""How the time of a run is shared among cases, providers and rounds. Needs nothing but Python."""

import time

import cases

ROUNDS = 5
SLICE_MS = 40.0  # What one provider may take in one round, unless the time is short.
CAP_MS = 2000.0  # What one row may take in all rounds.
WEIGHTS = {**dict.fromkeys(cases.PRODUCTS, 3.0), "attention": 3.0}  # Of a case's share of the budget, by how long providers take to compile.


def rounds_for(call_ms, slice_ms):
    """Rounds that a provider takes part in, of about 4 calls at least; none if a single call takes too much of the row's time."""
    return min(ROUNDS, int(CAP_MS * min(1.0, slice_ms / SLICE_MS) / call_ms) // 4)


class Budget:
    """Shares the time among the cases, by weight."""

    def __init__(self, seconds, all_cases):
        self.seconds, self.begin = seconds, time.monotonic()
        self.total = sum(self.weight(case) for case in all_cases)
        self.done = 0.0

    @staticmethod
    def weight(case):
        return WEIGHTS.get(case.work, 1.0)

    def spent(self):
        return time.monotonic() - self.begin

    def late(self, case):
        """Whether the next step would better be short: more is spent than the share of the cases up to this one."""
        return self.spent() > self.seconds * (0.1 + 0.9 * (self.done + self.weight(case)) / self.total)

    def slice_ms(self, case, candidates):
        """A third of the case's share of what is left goes into measuring: the rest is compiling and checking."""
        left = max(0.0, self.seconds - self.spent()) * self.weight(case) / max(1e-9, self.total - self.done)
        return max(4.0, min(SLICE_MS, left / 3 * 1e3 / ROUNDS / max(1, candidates)))

    def finished(self, case):
        self.done += self.weight(case)
