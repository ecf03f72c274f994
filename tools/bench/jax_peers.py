"""JAX as a provider: this end of jax_worker.py, which runs in a process of its own."""

import dataclasses
import json
import pathlib
import select
import subprocess
import sys


class JaxUnavailable(Exception):
    """The worker does not answer; the text says why."""


class JaxWorker:
    """Asks are answered within a time, or the worker is ended and is unavailable from then on."""

    def __init__(self):
        self.process = None
        for use_cupti in (True, False):
            try:
                self._start(use_cupti)
                self.about = self.ask("hello", timeout=90)
                break
            except JaxUnavailable as error:
                failure = error
        else:
            raise failure
        if self.about["platform"] != "gpu":
            self.close()
            raise JaxUnavailable(f"JAX sees no GPU, only {self.about['device']}")

    def _start(self, use_cupti):
        command = [sys.executable, str(pathlib.Path(__file__).with_name("peers.py")), "--jax-worker"]
        self.process = subprocess.Popen(
            command if use_cupti else [*command, "--no-cupti"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, what, timeout=120, **arguments):
        """The answer; RuntimeError with JAX's words if it is an error."""
        if self.process is None:
            raise JaxUnavailable("JAX's process has ended")
        try:
            self.process.stdin.write(json.dumps({"ask": what, **arguments}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            self.close()
            raise JaxUnavailable(f"JAX's process has ended: {error}") from error
        # One line answers one ask, so nothing is left in the buffer that select does not see.
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            reason = "ended" if ready else f"did not answer '{what}' in {timeout} s"
            self.close()
            raise JaxUnavailable(f"JAX's process {reason}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def build(self, case, provider):
        return self.ask("build", provider=provider, case=dataclasses.asdict(case))

    def drop(self):
        """Frees what the case's candidates hold. Where that fails, the next ask says so."""
        try:
            self.ask("drop")
        except (JaxUnavailable, RuntimeError):
            pass

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
