"""Compares two outputs of `minic run`: the same text up to what sums in another order may differ by."""
import re
import sys

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
one, other = (open(path).read() for path in sys.argv[1:3])
if NUMBER.sub("#", one) != NUMBER.sub("#", other):
    sys.exit(f"the texts differ:\n{one[:400]}\n{other[:400]}")
for a, b in zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(other))):
    if abs(a - b) > 1e-5 * max(abs(a), abs(b), 1):
        sys.exit(f"{a} and {b}")
