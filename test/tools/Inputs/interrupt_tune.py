"""interrupt_tune.py MINIC GRAPH FILE: Ctrl-C at the second of two regions; the first one is in the file, and is not tuned again."""

import os
import signal
import subprocess
import sys

minic, graph, found = sys.argv[1:]
if os.path.exists(found):
    os.remove(found)
command = [minic, "tune", graph, "--device=cpu", "--rounds", "1", "-o", found]
for dim in ("M=16", "K=16", "H=32", "N=16"):
    command += ["--dim", dim]

tuning = subprocess.Popen(command + ["--candidates", "32"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
messages = ""
for line in tuning.stderr:
    messages += line
    if line.startswith("region 2 of 2"):
        tuning.send_signal(signal.SIGINT)
        break
messages += tuning.stderr.read()
assert tuning.wait(timeout=60) == 130, (tuning.returncode, messages)
assert "note: stopped: interrupted; 1 of 2 regions decided" in messages, messages
text = open(found).read()
assert text.count("\nregion ") - text.count("unfinished") == 1, text

again = subprocess.run(command + ["--candidates", "4"], capture_output=True, text=True, timeout=300)
assert again.returncode == 0, again
assert "note: region 'h' is decided" in again.stderr and "region 2 of 2, y: checked" in again.stderr, again.stderr
text = open(found).read()
assert text.count("\nregion ") == 2 and "unfinished" not in text, text
