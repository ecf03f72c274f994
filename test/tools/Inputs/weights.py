"""weights.py PREFIX: the weights of linear_relu's example, as .npy and as .safetensors files (the format's description by hand)."""

import json
import struct
import sys

prefix = sys.argv[1]
w, b = [1, 2, 0, -1, -1, 1], [0.5, -1]


def npy(name, values, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    with open(f"{prefix}.{name}.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


def safetensors(name, tensors):
    """`tensors`: name to (dtype, shape, bytes)."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for tensor, (dtype, shape, values) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{prefix}.{name}.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


npy("w", w, (3, 2))
npy("b", b, "(2,)")
# A tensor that no input is called like may be of any type.
safetensors("wb", {"b": ("F32", [2], struct.pack("<2f", *b)), "step": ("U8", [3], b"abc"), "w": ("F32", [3, 2], struct.pack("<6f", *w))})
safetensors("half", {"b": ("F32", [2], struct.pack("<2f", *b)), "w": ("F16", [3, 2], struct.pack("<6e", *w))})
