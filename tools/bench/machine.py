"""What a measurement was made on. Needs nothing but Python."""

import datetime
import importlib.metadata
import platform
import shutil
import subprocess
import sys

QUERY = {
    "gpu": "name",
    "driver": "driver_version",
    "memory": "memory.total",
    "sm_clock": "clocks.sm",
    "sm_clock_max": "clocks.max.sm",
    "memory_clock": "clocks.mem",
    "power_limit": "power.limit",
    "temperature": "temperature.gpu",
}


def gpu():
    """What nvidia-smi says of the first GPU, clocks as they are at this moment; empty without it."""
    if not shutil.which("nvidia-smi"):
        return {}
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(QUERY.values())}", "--format=csv,noheader"]
    try:
        line = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()[0]
    except (subprocess.SubprocessError, OSError, IndexError):
        return {}
    return dict(zip(QUERY, (field.strip() for field in line.split(","))))


def versions(packages=("torch", "triton", "jax", "numpy", "minic")):
    """Of installed packages, without importing them."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def describe():
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {**gpu(), "versions": versions(), "command": " ".join(sys.argv), "date": date}
