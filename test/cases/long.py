"""The cases at their full sizes, and how the time of compiling grows: long.py MINIC. Takes a few minutes.

Prints a table of CPU seconds of `minic compile --emit=ptx` for 10 to 10,000 ops of each shape, and fails if ten times the ops of the
last step take more than 12 times as long.
"""
import os
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import graphs
import run_graph

SHAPES = ("chain", "tree", "diamonds", "outputs", "inputs", "live", "views", "sharing", "fanout", "residuals", "negs", "layers")
SIZES = (10, 100, 1000, 10000)


def compile_seconds(minic, text):
    """CPU time of one process, the least of several: the machine may be busy."""
    with tempfile.NamedTemporaryFile("w", suffix=".ir") as file:
        file.write(text)
        file.flush()
        best = None
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([minic, "compile", file.name, "--emit=ptx", "-o", os.devnull], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            best = seconds if best is None else min(best, seconds)
    return best


def measure(minic):
    worst = 0
    print(f"{'ops':>10} " + " ".join(f"{n:>9}" for n in SIZES) + "     ratio")
    for shape in SHAPES:
        times = [compile_seconds(minic, graphs.SHAPES[shape](n).text) for n in SIZES]
        ratio = times[-1] / times[-2]
        worst = max(worst, ratio)
        print(f"{shape:>10} " + " ".join(f"{t:>9.3f}" for t in times) + f" {ratio:>9.2f}", flush=True)
    return worst


def main(minic):
    for shape, n, flags, stack in (
        ("inputs_added", 5000, [], None),
        ("inputs_added", 5000, ["--mode=eager"], None),
        ("live", 2000, [], None),
        ("chain", 10000, [], 512),
        ("chain", 10000, ["--mode=eager"], 512),
        ("chain", 100000, [], None),
        ("views", 10000, [], 512),
        ("negs", 10000, [], None),
        ("crossing", 400, [], None),
        ("tree", 10000, [], None),
        ("diamonds", 10000, [], None),
        ("outputs", 10000, [], None),
        ("sharing", 10000, [], None),
        ("fanout", 10000, [], None),
        ("residuals", 5000, [], None),
        ("layers", 10000, [], None),
    ):
        run_graph.check(minic, shape, n, *flags, stack=stack)
        print(f"right: {shape} {n} {' '.join(flags)}", flush=True)
    if (worst := measure(minic)) > 12:
        sys.exit(f"10,000 ops take {worst:.1f} times as long as 1,000 in the worst shape, at most 12 are expected")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: long.py MINIC")
    main(sys.argv[1])
