"""Processes that compile and run graphs through one cache directory, some of them killed: whoever finishes has the right numbers, and
nothing bad is left.

    cache_stress.py MINIC FOLDER FAKE_DRIVER [SECONDS]
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

minic, folder, driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
seconds = float(os.environ.get("MINIC_STRESS_SECONDS") or (sys.argv[4] if len(sys.argv) > 4 else 12))
ROWS = [[1, 2, 3], [-4, 5, 60]]
GRAPHS = 10
# Small enough that entries are removed all the time.
environment = {**os.environ, "MINIC_CACHE_DIR": str(folder / "cache"), "MINIC_CACHE_SIZE": "40K"}
drawn = random.Random(5)


def write_graph(number):
    path = folder / f"g{number}.ir"
    path.write_text(f"""graph @g{number}(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {{
  %k = constant {number}.0          : tensor<MxNxf32>
  %p = mul %x, %k                   : tensor<MxNxf32>
  %y = reduce sum %p, axes = [1]    : tensor<Mxf32>
  return %y
}}
""")


def start(number, device, cache="on", **more):
    command = [minic, "run", str(folder / f"g{number}.ir"), f"--device={device}", f"--cache={cache}", "--input", f"x={ROWS}"]
    process = subprocess.Popen(command, env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.what = (number, device, cache)
    return process


def finish(process):
    """Whether it was killed; anything but that and the right numbers ends the test."""
    out, errors = process.communicate(timeout=120)
    number, device, _ = process.what
    if process.returncode == -signal.SIGKILL:
        return True
    faults = [line for line in errors.splitlines() if not line.startswith("note: running on the interpreter")]
    if process.returncode != 0 or faults:
        sys.exit(f"{process.what}: exit code {process.returncode}\n{errors}")
    if device == "cpu":
        expected = f"y: tensor<2xf32> = [{', '.join(str(sum(row) * number) for row in ROWS)}]\n"
        if out != expected:
            sys.exit(f"{process.what}: {out!r}, expected {expected!r}")
    return False


def files(ending):
    return [path for path in (folder / "cache").iterdir() if path.name.endswith(ending)]


folder.mkdir(parents=True, exist_ok=True)
for number in range(1, GRAPHS + 1):
    write_graph(number)
killed = finished = leftovers = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    running = []
    for _ in range(6):
        device = drawn.choice(["cpu", "cpu", "cuda"])
        more = {"LD_LIBRARY_PATH": driver} if device == "cuda" else {}
        running.append(start(drawn.randint(1, GRAPHS), device, drawn.choice(["on"] * 5 + ["refresh"]), **more))
    time.sleep(drawn.random() * 0.5)
    for process in running:
        if drawn.random() < 0.4:
            process.kill()
            time.sleep(drawn.random() * 0.05)
    for process in running:
        if finish(process):
            killed += 1
        else:
            finished += 1

# What the killed were writing goes when it is old; nothing else is there, and all of it is sound.
for path in files(".part"):
    leftovers += 1
    os.utime(path, (time.time() - 7200,) * 2)
subprocess.run([minic, "cache", "verify"], env=environment, check=True, stdout=subprocess.DEVNULL)
strangers = [path.name for path in (folder / "cache").iterdir() if not path.name.endswith(".entry")]
if strangers:
    sys.exit(f"left behind: {strangers}")
environment["MINIC_CACHE_SIZE"] = "1G"
for cache in ("on", "must-hit"):
    for number in range(1, GRAPHS + 1):
        finish(start(number, "cpu", cache))
        finish(start(number, "cuda", cache, LD_LIBRARY_PATH=driver))
if not finished or not killed:
    sys.exit(f"{finished} finished, {killed} killed: no stress")
print(f"sound after {finished} finished and {killed} killed, {leftovers} leftovers, {len(files('.entry'))} entries")
