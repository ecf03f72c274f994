"""Artifacts that are cut, changed in a byte, or no files: an error that says so, exit code 1, and never a wrong result.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TEXT = """graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {
  %y = add %x, %x : tensor<4xf32>
  return %y
}
"""
GIVEN = "--input=x=[1,2,3,4]"


def minic(*words, **environment):
    kept = {name: value for name, value in os.environ.items() if environment.get(name, "") is not None}
    given = {name: value for name, value in environment.items() if value is not None}
    return subprocess.run(["minic", *words], capture_output=True, text=True, timeout=60, env={**kept, **given})


def refused(what, path):
    for words in (["run", path, "--device=cpu", GIVEN], ["inspect", path]):
        done = minic(*words)
        errors = re.findall(r"error: .* \[(E\d+)\]", done.stderr)
        if done.returncode != 1 or not errors or done.stdout:
            sys.exit(f"{what}, {words[0]}: exit code {done.returncode}: {done.stdout}{done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "g.ir")
        pathlib.Path(graph).write_text(TEXT)
        good, bad = os.path.join(folder, "good.mnc"), os.path.join(folder, "bad.mnc")
        assert minic("compile", graph, "-o", good).returncode == 0
        right = minic("run", good, "--device=cpu", GIVEN)
        assert right.stdout == "y: tensor<4xf32> = [2, 4, 6, 8]\n", right.stderr
        whole = pathlib.Path(good).read_bytes()
        size = len(whole)
        for cut in (0, 1, 8, size // 2, size - 1):
            pathlib.Path(bad).write_bytes(whole[:cut])
            refused(f"cut at {cut} of {size}", bad)
        pathlib.Path(bad).write_bytes(whole + b"\0")
        refused("a byte more", bad)
        for at in (0, 9, size // 3, size // 2, size - 1):
            pathlib.Path(bad).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            refused(f"byte {at} of {size} changed", bad)
        os.remove(bad)
        os.mkdir(bad)
        refused("a folder", bad)
        os.rmdir(bad)
        os.symlink(os.path.join(folder, "nothing"), bad)
        refused("a link to nothing", bad)
        if os.getuid():
            os.chmod(good, 0)
            refused("no permission", good)
            os.chmod(good, 0o600)
        # Nothing needs a home, or a place to write.
        for environment in ({"HOME": None}, {"HOME": "/nonexistent"}, {"XDG_CACHE_HOME": "relative"}, {"TMPDIR": "/nonexistent"}):
            for words in (["run", good, "--device=cpu", GIVEN], ["run", graph, "--device=cpu", GIVEN]):
                done = minic(*words, **environment)
                if (done.returncode, done.stdout) != (0, right.stdout):
                    sys.exit(f"{environment}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        locked = os.path.join(folder, "locked")
        os.mkdir(locked, 0o500)
        done = minic("compile", graph, "-o", os.path.join(folder, "no", "a.mnc"))
        assert done.returncode == 1 and "cannot write" in done.stderr, done.stderr
        if os.getuid():
            done = minic("compile", graph, "-o", os.path.join(locked, "a.mnc"))
            assert done.returncode == 1 and "cannot write" in done.stderr, done.stderr
        if os.path.exists("/dev/full"):
            done = minic("compile", graph, "--emit=ptx", "-o", "/dev/full")
            assert done.returncode == 1, done.stderr
        assert sorted(os.listdir(folder)) == ["bad.mnc", "g.ir", "good.mnc", "locked"]


if __name__ == "__main__":
    main()
