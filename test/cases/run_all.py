#!/usr/bin/env python3
"""Runs the cases that need nothing but run_case.py, where lit is not installed, on the interpreter and on the GPU.

    run_all.py [PATTERN]...      minic must be in PATH; a pattern is a part of a file's name
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def commands(path):
    """The arguments of each `RUN: %case`, with lines that end in \\ put together."""
    lines = re.sub(r"\\\n\s*(?://|#) RUN:", " ", path.read_text()).splitlines()
    for line in lines:
        found = re.match(r"(?://|#) RUN: %case (.*)", line)
        if found:
            yield shlex.split(found[1].replace("%s", str(path)))


def run(job):
    path, arguments = job
    done = subprocess.run([sys.executable, str(FOLDER / "run_case.py"), *arguments], capture_output=True, text=True)
    return path, arguments, done


def main(patterns):
    os.environ["MINIC_TEST_CUDA"] = "1"
    files = [path for path in sorted(FOLDER.glob("*.*")) if path.suffix in (".ir", ".test")]
    jobs = [(path, arguments) for path in files if not patterns or any(p in path.name for p in patterns) for arguments in commands(path)]
    failed = {}
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())) as pool:
        for path, arguments, done in pool.map(run, jobs):
            if done.returncode:
                failed.setdefault(path.name, 0)
                failed[path.name] += 1
                print(f"{path.name} {shlex.join(arguments[1:])}\n{done.stdout}{done.stderr}")
    print(f"{len(jobs)} runs of {len({path for path, _ in jobs})} cases, {sum(failed.values())} failed {failed or ''}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
