#!/usr/bin/env python3
"""Differential testing: random graphs, in every way that minic can run them, against NumPy and against each other.

    MINIC_LIBRARY=build/release/lib/libminic.so python3 test/fuzz --count 100000 --jobs 16

A graph is given by seed and index; --seed S --index I checks one and prints it. What fails is reduced and written as a test."""

import argparse
import collections
import json
import multiprocessing.connection
import os
import pathlib
import pickle
import sys
import time

import report
from reducer import reduce_graph
from workers import HANG_SECONDS, Worker


def arguments():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default 1)")
    parser.add_argument("--count", type=int, help="graphs to check (default: 1000, or as many as --seconds allows)")
    parser.add_argument("--first", type=int, default=0, help="index of the first graph (default 0)")
    parser.add_argument("--index", type=int, help="check and print this graph alone")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: the GPU as well as the interpreter")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="OPS", help="ops to make graphs of")
    parser.add_argument("--reduce-seconds", type=float, default=60, help="time for making one failing graph small (default 60)")
    parser.add_argument("--kinds", type=int, default=10, help="stop after so many kinds of failures (default 10)")
    parser.add_argument("--save", type=pathlib.Path, help="a folder for reduced tests")
    parser.add_argument("--json", action="store_true", help="the summary for programs")
    parser.add_argument("--plant", metavar="OP",
                        help="make NumPy's side of this op wrong, or, as OP=OTHER, write another op into what is fused: both must be found")
    return parser.parse_args()


class Run:
    def __init__(self, options):
        self.options = options
        self.settings = {
            "device": None if options.device == "cpu" else options.device,
            "only": options.only,
            "wrong_op": options.plant,
        }
        self.done, self.limits, self.failures = 0, 0, collections.Counter()
        self.examples = {}
        self.ops, self.types, self.unchecked = set(), set(), set()

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def take(self, job, answer):
        failure, kept, (ops, types, unchecked) = answer
        self.done += 1
        self.ops |= ops - {"input"}
        self.types |= types
        self.unchecked |= unchecked
        if failure is None:
            return
        kind, text = failure
        if kind.endswith(": limit"):
            self.limits += 1
            return
        self.failures[kind] += 1
        graph, seen = pickle.loads(kept) if kept else (None, None)
        size = len(graph.nodes) if graph else 0
        if kind not in self.examples or size < self.examples[kind][0]:
            self.examples[kind] = (size, job, text, graph, seen)
        if self.failures[kind] == 1:
            self.say(f"seed {job[0]}, index {job[1]}: {kind}: {text.splitlines()[0]}")

    def all(self):
        options = self.options
        count = options.count or (10**9 if options.seconds else 1000)
        start = shown = time.monotonic()
        workers = [Worker(self.settings) for _ in range(min(options.jobs, count))]
        jobs = iter(range(options.first, options.first + count))
        for worker in workers:
            worker.send((options.seed, next(jobs)))
        while any(worker.job for worker in workers):
            busy = [worker for worker in workers if worker.job]
            multiprocessing.connection.wait([worker.connection for worker in busy], 5)
            now = time.monotonic()
            for worker in busy:
                if worker.connection.poll() or now - worker.since > HANG_SECONDS:
                    job = worker.job
                    self.take(job, worker.answer())
                    late = options.seconds and now - start > options.seconds
                    if not late and len(self.failures) < options.kinds and (index := next(jobs, None)) is not None:
                        worker.send((options.seed, index))
            if now - shown > 10:
                shown = now
                self.say(f"{self.done} graphs, {self.done / (now - start):.0f} a second, {sum(self.failures.values())} failures")
        self.seconds = time.monotonic() - start
        for worker in workers:
            worker.stop()

    def reduced(self, kind):
        """The smallest graph of a kind of failure, made smaller."""
        _, job, text, graph, seen = self.examples[kind]
        worker = Worker(self.settings)
        if graph is None:  # It crashed: its process could not send it.
            graph, seen = report.regenerate(job, self.options.only), None
        graph.values_seen = seen
        last = {"text": text}

        def fails(candidate):
            failure, kept, _ = worker.ask(candidate, kind)
            if not failure or failure[0] != kind:
                return False
            last["text"] = failure[1]
            candidate.values_seen = pickle.loads(kept)[1] if kept else None
            return True

        if self.options.reduce_seconds and fails(graph):
            graph = reduce_graph(graph, fails, self.options.reduce_seconds)
        worker.stop()
        return graph, last["text"], graph.values_seen, job

    def summary(self):
        return {
            "graphs": self.done,
            "seed": self.options.seed,
            "first": self.options.first,
            "seconds": round(self.seconds, 1),
            "jobs": self.options.jobs,
            "device": self.options.device,
            "failures": dict(self.failures),
            "limits": self.limits,
            "ops": sorted(self.ops),
            "types": sorted(self.types),
            "without oracle": sorted(self.unchecked),
        }


def main():
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))  # The workers' too.
    options = arguments()
    if options.index is not None:
        options.first, options.count, options.jobs = options.index, 1, 1
        print(report.regenerate((options.seed, options.index), options.only).text())
    run = Run(options)
    run.all()
    for kind in run.examples:
        graph, text, seen, job = run.reduced(kind)
        test = report.test_text(graph, kind, text, seen, job)
        run.say(f"\n{test}")
        if options.save:
            options.save.mkdir(parents=True, exist_ok=True)
            (options.save / f"seed{job[0]}-{job[1]}.ir").write_text(test)
    summary = run.summary()
    print(json.dumps(summary) if options.json else report.line(summary))
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
