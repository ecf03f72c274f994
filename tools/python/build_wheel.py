#!/usr/bin/env python3
"""Makes a wheel of the package and a self-contained libminic.so, with the standard library alone.

    build_wheel.py --library build/bundle/lib/libminic.so [--output DIR] [--platform TAG] [--licenses DIR]

It is the build backend of pyproject.toml too: `MINIC_LIBRARY=.../libminic.so pip wheel tools/python`."""

import argparse
import base64
import ctypes
import hashlib
import os
import pathlib
import re
import sys
import zipfile
from typing import List, Optional

HERE = pathlib.Path(__file__).resolve().parent
PLATFORM = "manylinux_2_36_x86_64"  # The glibc that releases are built on.


def project_value(key: str) -> str:
    """A text of pyproject.toml; Python 3.9 has no reader for it."""
    return re.findall(rf'^{key} = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.M)[0]


def library_version(library: pathlib.Path) -> str:
    loaded = ctypes.CDLL(str(library))
    loaded.minic_version.restype = ctypes.c_char_p
    return loaded.minic_version().decode()


class Wheel:
    def __init__(self, path: pathlib.Path) -> None:
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.records: List[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        # The same input gives the same bytes.
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
        self.archive.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}")

    def close(self, info_dir: str) -> None:
        name = f"{info_dir}/RECORD"
        self.add(name, "\n".join([*self.records, f"{name},,", ""]).encode())
        self.archive.close()


def make_wheel(library: pathlib.Path, output: pathlib.Path, platform: str, licenses: Optional[pathlib.Path] = None) -> str:
    """The name of the wheel in `output`. `licenses`: files about what is inside the library."""
    data = library.read_bytes()
    if platform.startswith("manylinux") and b"\0libLLVM" in data:
        sys.exit(f"{library} needs LLVM where it runs: build it with -DMINIC_STATIC_LLVM=ON, or give --platform linux_x86_64")
    version, tag = library_version(library), f"py3-none-{platform}"
    name = f"minic-{version}-{tag}.whl"
    info_dir = f"minic-{version}.dist-info"
    output.mkdir(parents=True, exist_ok=True)
    wheel = Wheel(output / name)
    for path in sorted((HERE / "minic").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            wheel.add(f"minic/{path.name}", path.read_bytes())
    wheel.add("minic/lib/libminic.so", data, 0o755)
    licence = HERE.parent.parent / "LICENSE"
    if licence.exists():
        wheel.add(f"{info_dir}/LICENSE", licence.read_bytes())
    for path in sorted(licenses.iterdir()) if licenses else []:
        wheel.add(f"{info_dir}/licenses/{path.name}", path.read_bytes())
    metadata = {
        "Metadata-Version": "2.1",
        "Name": "minic",
        "Version": version,
        "Summary": project_value("description"),
        "Requires-Python": project_value("requires-python"),
    }
    wheel.add(f"{info_dir}/METADATA", "".join(f"{key}: {value}\n" for key, value in metadata.items()).encode())
    lines = ["Wheel-Version: 1.0", "Generator: minic", "Root-Is-Purelib: false", f"Tag: {tag}", ""]
    wheel.add(f"{info_dir}/WHEEL", "\n".join(lines).encode())
    wheel.close(info_dir)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    library = os.environ.get("MINIC_LIBRARY")
    if not library:
        sys.exit("set MINIC_LIBRARY to the libminic.so that goes into the wheel")
    platform = (config_settings or {}).get("platform", PLATFORM)
    return make_wheel(pathlib.Path(library), pathlib.Path(wheel_directory), platform)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path.cwd())
    parser.add_argument("--platform", default=PLATFORM)
    parser.add_argument("--licenses", type=pathlib.Path)
    flags = parser.parse_args()
    print(flags.output / make_wheel(flags.library, flags.output, flags.platform, flags.licenses))


if __name__ == "__main__":
    main()
