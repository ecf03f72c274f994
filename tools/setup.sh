# Installs what building minic needs, where it is missing. Sourced by tools/check and tools/quickstart:
#   install_needed PACKAGE...   on Debian and Ubuntu; elsewhere names what is needed

say() { printf '== %s\n' "$*"; }

# What a build needs, with the lowest versions that are known to work.
needs() {
  cat <<'END'
minic needs these; install them with the system's package manager and run this again:
  a C++20 compiler         g++ 12 or clang 16
  CMake, Ninja             3.25, any
  LLVM with NVPTX          22.1 (headers, libLLVM, FileCheck and lit), found by CMake; else set LLVM_DIR
  zlib, zstd               for -DMINIC_STATIC_LLVM=ON
  GoogleTest               1.12
  CLI11                    2.1
  nlohmann json            3.11
  xxHash                   0.8 (its header)
  Python                   3.9, for tests
  Chromium                 any, for tests of the pages that `minic report` writes; without it they are skipped
END
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
available() { [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | grep -v '(none)')" ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "cannot install packages: not root, and there is no sudo" >&2
    return 1
  fi
}

# LLVM 22 is in Debian 12's security archive, which a system made by debootstrap does not list. Its address is that of the main
# archive with -security at the end.
add_security_archive() {
  local main
  main=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -oE '(https?|file|ftp)://[^ ]*/debian/?( |$)' | head -1)
  main=${main%% *}
  main=${main%/}
  [ -n "$main" ] || return 1
  say "adding Debian's security archive, which has LLVM 22, as /etc/apt/sources.list.d/bookworm-security.list"
  echo "deb $main-security bookworm-security main" | as_root tee /etc/apt/sources.list.d/bookworm-security.list >/dev/null
  as_root apt-get update -q
}

install_needed() {
  local system="" missing=() lacking=() package
  if [ -r /etc/os-release ]; then
    system=$(. /etc/os-release && echo "${ID:-} ${VERSION_ID:-}")
  fi
  case $system in
  "debian 12" | "debian 13" | "ubuntu 24.04") ;;
  *)
    say "this system (${system:-unknown}) is not one that the script knows how to install on"
    needs
    if command -v cmake >/dev/null && command -v ninja >/dev/null; then
      say "trying with what is here"
      return 0
    fi
    exit 3
    ;;
  esac
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  # An old or empty list of packages offers what is not there any more, or nothing.
  as_root apt-get update -q || exit 3
  if [ "$system" = "debian 12" ] && [[ " ${missing[*]} " == *" llvm-22-dev "* ]] && ! available llvm-22-dev; then
    add_security_archive || true
  fi
  for package in "${missing[@]}"; do
    available "$package" || lacking+=("$package")
  done
  if [ ${#lacking[@]} -gt 0 ]; then
    say "the package lists of $system have no ${lacking[*]}"
    needs
    [ "$system" = "ubuntu 24.04" ] &&
      echo "Ubuntu 24.04 has no LLVM 22: add the LLVM project's package archive for it, which has llvm-22-dev, and run this again."
    exit 3
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" || exit 3
}

build_packages=(g++ cmake ninja-build llvm-22-dev libgtest-dev libcli11-dev nlohmann-json3-dev libxxhash-dev python3 zlib1g-dev libzstd-dev)
