"""Child processes that check graphs, so that a crash or a hang is the graph's and not the end of the run."""

import multiprocessing
import pickle
import time

HANG_SECONDS = 120


def _serve(connection, settings):
    """In the child: answers (seed, index) or a pickled graph with what became of it."""
    import numpy as np

    import check
    from generator import generate
    from table import read_table

    table, stored = read_table()
    connection.send("ready")
    while True:
        job = connection.recv()
        if job is None:
            return
        if isinstance(job, bytes):
            graph, kind = pickle.loads(job)
            rng = np.random.default_rng(0)
        else:
            kind = None
            seed, index = job
            rng = np.random.default_rng([seed, index, 1])
            graph = generate(table, stored, seed, index, settings["only"])
        run = check.Check(graph, settings["device"], rng, settings["wrong_op"], kind)
        try:
            with np.errstate(all="ignore"):
                run.all()
            failure = None
        except check.Failure as error:
            failure = (error.kind, error.text)
        except Exception as error:  # A fault of the fuzzer's, or a graph that the reducer made and that is none.
            failure = ("fuzzer", f"{type(error).__name__}: {error}")
        kept = failure and (graph, run.exact)
        covered = ({node.op for node in graph.nodes.values()}, check.element_types(graph), run.unchecked)
        connection.send((failure, pickle.dumps(kept) if kept else None, covered))


class Worker:
    """One child and what it is at."""

    def __init__(self, settings):
        self.settings, self.job = settings, None
        self._start()

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.settings), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.connection.recv()
        except EOFError:
            raise SystemExit("fuzz: a worker does not start") from None

    def send(self, job):
        self.job, self.since = job, time.monotonic()
        self.connection.send(job)

    def answer(self):
        """What came back; a dead child is a crash. The connection must be readable, or the child have hung."""
        try:
            if time.monotonic() - self.since > HANG_SECONDS and not self.connection.poll():
                self.process.kill()
                return self._restart(("hang", f"no answer in {HANG_SECONDS} s"))
            result = self.connection.recv()
            self.job = None
            return result
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._restart((f"crash, exit code {self.process.exitcode}", "the process ended"))

    def _restart(self, failure):
        self.process.join()
        self.connection.close()
        self.job = None
        self._start()
        return failure, None, (set(), set(), set())

    def ask(self, graph, kind):
        """Checks one graph for one kind of failure and waits."""
        self.send(pickle.dumps((graph, kind)))
        while not self.connection.poll(1) and time.monotonic() - self.since <= HANG_SECONDS:
            pass
        return self.answer()

    def stop(self):
        try:
            self.connection.send(None)
            self.process.join(5)
        except (BrokenPipeError, OSError):
            pass
        if self.process.is_alive():
            self.process.kill()
