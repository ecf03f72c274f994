"""The manual page: it renders without a warning, and names each command, each flag of its help and each variable that is read.

    check_manual.py ROOT
"""

import pathlib
import re
import shutil
import subprocess
import sys


def minic(*words):
    return subprocess.run(["minic", *words], capture_output=True, text=True, check=True).stdout


def main(root):
    page, faults = minic("doc", "man"), []
    text = page.replace("\\-", "-").replace("\\:", "")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, capture_output=True, text=True)
        faults += [done.stderr] if done.stderr or done.returncode else []
    else:
        print("not rendered: there is no groff")
    commands = re.findall(r"^  (\w+) {2,}", minic("--help").split("Subcommands:")[1], re.M)
    for command in commands:
        help_ = minic(command, "--help")
        if "Subcommands:" in help_:
            continue
        section = text.partition(f".SS minic {command}\n")[2].partition("\n.SS")[0]
        for flag in re.findall(r"^  (?:-\w,)?(--?[\w-]+)", help_, re.M):
            if f"\\fB{flag}\\fR" not in section:
                faults.append(f"minic {command} {flag} is not on the page")
    for path in [*root.glob("lib/**/*.cpp"), *root.glob("tools/minic/*.cpp")]:
        for name in re.findall(r'(?:getenv|variable)\("(\w+)"\)', path.read_text()):
            if f"\\fB{name}\\fR" not in text:
                faults.append(f"{path} reads {name}, which is not on the page")
    print("\n".join(faults) or f"{len(commands)} commands")
    sys.exit(bool(faults) or len(commands) < 10)


main(pathlib.Path(sys.argv[1]))
