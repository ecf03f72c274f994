"""Changes a byte in the middle of each file below a folder."""
import pathlib
import sys

for path in pathlib.Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
