#!/usr/bin/env python3
"""Runs the cases that need nothing but run_case.py, where lit is not installed, on the interpreter and on the GPU.

    run_all.py [--long] [PATTERN]...      minic must be in PATH; a pattern is a part of a file's name

--long adds those of the size of a GPU's memory, one at a time: they stand after `LONG:` instead of `RUN:`.
"""

import concurrent.futures
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def commands(path, word="RUN"):
    """The arguments of each `RUN: %case`, with lines that end in \\ put together."""
    lines = re.sub(rf"\\\n\s*(?://|#) {word}:", " ", path.read_text()).splitlines()
    for line in lines:
        found = re.match(rf"(?://|#) {word}: %case (.*)", line)
        if found:
            yield shlex.split(found[1].replace("%s", str(path)))


def run(job):
    path, arguments = job
    done = subprocess.run([sys.executable, str(FOLDER / "run_case.py"), *arguments], capture_output=True, text=True)
    return path, arguments, done


def main(arguments):
    os.environ["MINIC_TEST_CUDA"] = "1"
    patterns = [argument for argument in arguments if argument != "--long"]
    files = [path for path in sorted(FOLDER.glob("*.*")) if path.suffix in (".ir", ".test")]
    files = [path for path in files if not patterns or any(p in path.name for p in patterns)]
    jobs = [(path, words) for path in files for words in commands(path)]
    long = [(path, words) for path in files for words in commands(path, "LONG")] if "--long" in arguments else []
    failed = {}
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())) as pool:
        for path, words, done in itertools.chain(pool.map(run, jobs), map(run, long)):
            if done.returncode:
                failed.setdefault(path.name, 0)
                failed[path.name] += 1
                print(f"{path.name} {shlex.join(words[1:])}\n{done.stdout}{done.stderr}")
    runs = jobs + long
    print(f"{len(runs)} runs of {len({path for path, _ in runs})} cases, {sum(failed.values())} failed {failed or ''}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
