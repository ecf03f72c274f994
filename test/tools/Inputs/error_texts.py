"""Runs the examples of `minic explain CODE --json` for every code of `minic doc errors`, in folders below the one that is named."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(folder, which, text):
    """The exit code and the codes in the messages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = text.splitlines()
    (folder / f"{which}.ir").write_text("".join(line + "\n" for line in lines if not line.startswith("$ ")))
    script = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    done = subprocess.run(["sh", "-ec", script], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "MINIC_CACHE_DIR": str(folder / "cache")})
    return done.returncode, set(re.findall(r"\[(E\d{4})\]", done.stderr)), done.stderr


faults = 0
for code in re.findall(r"^\| (E\d{4}) \|", output("minic", "doc", "errors"), re.MULTILINE):
    text = json.loads(output("minic", "explain", code, "--json"))
    if not (text["code"] == code and text["wrong"] and text["right"] and text["reason"]):
        faults += 1
        print(f"{code}: a part of the text is missing")
    elif not text["needs"]:
        for which in ("wrong", "right"):
            status, codes, messages = run(pathlib.Path(sys.argv[1]) / code / which, which, text[which])
            if not (code in codes if which == "wrong" else status == 0 and not codes):
                faults += 1
                print(f"{code}: {which} gives exit code {status} and {messages}")
sys.exit(faults != 0)
