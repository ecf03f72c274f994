"""What an artifact is made of shows in its bytes: each change gives others, and the same text the same in every process."""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

TEXT = """graph @g(%x: tensor<NxMxf32>) -> (y: tensor<NxMxf32>) {
  %c = constant 2.0 : tensor<NxMxf32>
  %p = mul %x, %c : tensor<NxMxf32>
  %y = add %p, %x : tensor<NxMxf32>
  return %y
}
"""
PLAIN = ["--target=sm_90a", "--dim=M=64"]
CHANGED = {
    "nothing": (TEXT, PLAIN),
    "target": (TEXT, ["--target=sm_80", "--dim=M=64"]),
    "targets": (TEXT, ["--target=sm_80,sm_90a", "--dim=M=64"]),
    "numerics": (TEXT, PLAIN + ["--numerics=exact"]),
    "mode": (TEXT, PLAIN + ["--mode=eager"]),
    "shape": (TEXT, ["--target=sm_90a", "--dim=M=65"]),
    "no shape": (TEXT, ["--target=sm_90a"]),
    "constant": (TEXT.replace("2.0", "3.0"), PLAIN),
    "constant's sign": (TEXT.replace("2.0", "-2.0"), PLAIN),
    "constant's last bit": (TEXT.replace("2.0", "2.0000002"), PLAIN),
    "element type": (TEXT.replace("f32", "f64"), PLAIN),
    "another element type": (TEXT.replace("f32", "bf16"), PLAIN),
    "op": (TEXT.replace("add", "sub"), PLAIN),
    "operands": (TEXT.replace("add %p, %x", "sub %x, %p"), PLAIN),
    "name of an output": (TEXT.replace("(y:", "(z:"), PLAIN),
}


def compiled(folder, text, flags, name):
    path, artifact = os.path.join(folder, "g.ir"), os.path.join(folder, name)
    pathlib.Path(path).write_text(text)
    subprocess.run(["minic", "compile", path, "-o", artifact, *flags], check=True, stderr=subprocess.DEVNULL)
    return pathlib.Path(artifact).read_bytes()


def main():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        made = {what: compiled(folder, *key, "a.mnc") for what, key in CHANGED.items()}
        for (a, one), (b, two) in itertools.combinations(made.items(), 2):
            if one == two:
                sys.exit(f"{a} and {b} give the same artifact")
        for what, key in CHANGED.items():  # Another process, another folder, another name, an environment of another size.
            os.environ["PADDING"] = "x" * 1000 * len(what)
            if compiled(other, *key, "b.mnc") != made[what]:
                sys.exit(f"{what}: another process gives another artifact")


if __name__ == "__main__":
    main()
