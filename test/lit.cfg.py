# The lit suite: .ir and .test files in test/<Room>/ and test/tools/.
# Substitutions: %examples, %docs (those folders), %python, %case (test/cases/run_case.py), %path (the PATH of the tests), %fake_driver (a folder with a libcuda.so.1,
# see tools/Inputs/driver/FakeDriver.cpp), %cache_stress (tools/Inputs/cache_stress_worker.cpp), %program (minic), %library (libminic.so), %package (the folder of the Python package).
# Features: ptxas (an assembler is installed), cuda (minic sees a device), sanitizer, localedef (and the sources of de_DE), memory (room for addresses of 20 GiB).

import os
import shutil
import subprocess

import lit.formats

config.name = "minic"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir", ".test"]
config.excludes = ["unit", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.obj_root

config.environment["PATH"] = os.pathsep.join([config.minic_dir, config.llvm_tools_dir, os.environ.get("PATH", "")])
# lit clears the environment; these belong to the machine or to minic.
for name, value in os.environ.items():
    if name.startswith(("MINIC_", "CUDA_")):
        config.environment[name] = value

config.substitutions.append(("%examples", os.path.join(config.minic_root, "examples")))
config.substitutions.append(("%docs", os.path.join(config.minic_root, "docs")))
config.substitutions.append(("%python", config.python))
case = os.path.join(config.minic_root, "test", "cases", "run_case.py")
config.substitutions.append(("%case", f"{config.python} {case}"))
# Each run of the tests begins with an empty cache of its own.
config.environment["MINIC_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
shutil.rmtree(config.environment["MINIC_CACHE_DIR"], ignore_errors=True)
config.substitutions.append(("%path", config.environment["PATH"]))
config.substitutions.append(("%fake_driver", config.fake_driver))
config.substitutions.append(("%cache_stress", config.cache_stress))
config.substitutions.append(("%program", os.path.join(config.minic_dir, "minic")))
config.substitutions.append(("%library", os.path.join(config.minic_dir, "..", "lib", "libminic.so")))
config.substitutions.append(("%package", os.path.join(config.minic_root, "tools", "python")))

if shutil.which("ptxas") or os.access("/usr/local/cuda/bin/ptxas", os.X_OK):
    config.available_features.add("ptxas")
if config.sanitizer:
    config.available_features.add("sanitizer")

if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= 20 << 30 and not config.sanitizer:
    config.available_features.add("memory")

if shutil.which("localedef") and os.path.exists("/usr/share/i18n/locales/de_DE"):
    config.available_features.add("localedef")


def sees_device():
    command = [os.path.join(config.minic_dir, "minic"), "run", os.path.join(config.minic_root, "examples", "vector_add.ir"),
               "--device=cuda", "--dim", "N=4", "--input", "x=iota", "--input", "y=iota"]
    try:
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


if sees_device():
    config.available_features.add("cuda")
    config.environment["MINIC_TEST_CUDA"] = "1"
