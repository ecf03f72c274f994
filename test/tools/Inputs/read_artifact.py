"""read_artifact.py FILE.mnc: reads an artifact by docs/artifact-format.md alone, all but its checksum, and prints what it is for."""

import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
magic, version, zero, size, manifest_size = struct.unpack_from("<8sIIQQ", data)
assert magic == b"\x89MNC\r\n\x1a\n" and version == 6 and zero == 0 and size == len(data)
manifest = json.loads(data[32:32 + manifest_size].decode())
blobs = data[32 + manifest_size:-16]
position = 0


def blob(place):
    global position
    assert place["offset"] == position
    position += place["size"]
    assert position <= len(blobs)
    return blobs[place["offset"]:position]


def spec(buffer, name):
    return f"{name}:{buffer['dtype']}[{','.join(buffer['shape'])}]"


for variant in manifest["variants"]:
    assert blob(variant["text"]).startswith(b"minic 1\n")
    for kernel in variant["kernels"]:
        ptx, cubin = blob(kernel["ptx"]).decode(), blob(kernel["cubin"])
        assert f".entry {kernel['name']}(" in ptx and f".target {variant['target']}" in ptx
        assert not cubin or cubin.startswith(b"\x7fELF")
    constants = [blob(constant) for constant in variant["constants"]]
    takes = []
    for plan in variant["plans"]:
        for step in plan["steps"]:
            if step["kind"] == "constant":
                assert len(constants) > step["constant"]
            if step["kind"] == "launch":
                params = variant["kernels"][step["kernel"]]["params"]
                for operand, param in zip(step["operands"], params, strict=True):
                    buffer = plan["buffers"][operand]
                    assert param.get("stridedAxes", 0) == (len(buffer["shape"]) if buffer.get("strided") else 0)
        inputs = [spec(buffer, buffer["name"]) for buffer in plan["buffers"][:plan["inputs"]]]
        results = [spec(plan["buffers"][result["buffer"]], result["name"]) for result in plan["results"]]
        strided = any(buffer.get("strided") for buffer in plan["buffers"])
        takes.append(("strided " if strided else "") + ", ".join(inputs) + " -> " + ", ".join(results))
    print(plan["name"], variant["target"], variant["numerics"], len(variant["kernels"]), "kernels", ", ".join(takes))
assert position == len(blobs)
