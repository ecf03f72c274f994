"""Processes of threads that compile and run graphs through one cache directory, some of them killed: whoever finishes has the right
numbers, and nothing bad is left.

    cache_stress.py MINIC WORKER FOLDER FAKE_DRIVER [--processes 10] [--threads 8] [--tasks 2] [--rounds 3] [--seed N]
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
for name in ("minic", "worker", "folder", "driver"):
    parser.add_argument(name)
parser.add_argument("--processes", type=int, default=10)
parser.add_argument("--threads", type=int, default=8)
parser.add_argument("--tasks", type=int, default=2, help="of each thread")
parser.add_argument("--rounds", type=int, default=int(os.environ.get("MINIC_STRESS_ROUNDS") or 3))
parser.add_argument("--seed", type=int, default=5)
options = parser.parse_args()
folder = pathlib.Path(options.folder) / "cache"
# About half of all, so that entries are removed all the time.
environment = {**os.environ, "MINIC_CACHE_DIR": str(folder), "MINIC_CACHE_SIZE": "250K", "LD_LIBRARY_PATH": options.driver}
drawn = random.Random(options.seed)


def start(*words):
    command = [options.worker, *map(str, words)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    """Whether it was killed; anything but that and the right numbers ends the test."""
    output, _ = process.communicate(timeout=300)
    if process.returncode == -signal.SIGKILL:
        return True
    if process.returncode != 0 or output:
        sys.exit(f"{process.args}: exit code {process.returncode}\n{output}")
    return False


def files():
    return [path.name for path in folder.iterdir()]


def verify(what):
    """Whoever was killed leaves no damaged entry and nothing that others wait for."""
    done = subprocess.run([options.minic, "cache", "verify"], env=environment, capture_output=True, text=True)
    if done.returncode != 0 or "damaged" in done.stdout:
        sys.exit(f"{what}: {done.stdout}{done.stderr}")
    strangers = [name for name in files() if not name.endswith((".entry", ".part"))]
    if strangers:
        sys.exit(f"{what}: left behind: {strangers}")


def age_leftovers():
    """Makes what the killed were writing old, so that later writers remove it; how many there are."""
    names = [name for name in files() if name.endswith(".part")]
    for name in names:
        os.utime(folder / name, (time.time() - 7200,) * 2)
    return len(names)


killed = finished = leftovers = 0
for number in range(options.rounds):
    begin = time.monotonic()
    running = [start(options.threads, options.tasks, number * options.processes + i) for i in range(options.processes)]
    doomed = [process for process in running if drawn.random() < 0.4]
    # Over the time that the round before took, so that they die at all kinds of work.
    moments = sorted((drawn.random() * (took if number else 2.0), i) for i in range(len(doomed)))
    for moment, i in moments:
        while time.monotonic() < begin + moment and any(process.poll() is None for process in running):
            time.sleep(0.002)
        doomed[i].kill()
    for process in running:
        if finish(process):
            killed += 1
        else:
            finished += 1
    took = time.monotonic() - begin
    leftovers += age_leftovers()
    verify(f"round {number + 1}")
    if options.rounds > 20 and number % 10 == 9:
        print(f"round {number + 1}: {finished} finished, {killed} killed, {leftovers} leftovers, {len(files())} entries, {took:.1f} s", flush=True)

# `verify` has removed what was old.
if any(not name.endswith(".entry") for name in files()):
    sys.exit(f"left behind: {files()}")
environment["MINIC_CACHE_SIZE"] = "1G"
for policy in ("on", "must-hit"):
    finish(start("all", policy))
if not finished or not killed:
    sys.exit(f"{finished} finished, {killed} killed: no stress")
print(f"sound after {options.rounds} rounds: {finished} finished and {killed} killed, {leftovers} leftovers, {len(files())} entries")
