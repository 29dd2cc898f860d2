#!/usr/bin/env bash
# Installs what a build, the tests and the demo need, and only what is missing. A second run does nothing.
# Usage: tools/setup.sh [check] [bench] [docs]     what `make check`, `make bench` and `make docs` need on top
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(build-essential g++ cmake ninja-build ccache python3 python3-venv python3-dev
  libdnnl-dev ocl-icd-opencl-dev
  libhwy-dev libtbb-dev libasmjit-dev libfmt-dev libspdlog-dev
  libgtest-dev libbenchmark-dev
  libopenmpi-dev openmpi-bin graphviz)
requirements=(requirements/build.txt requirements/test.txt requirements/demo.txt)
for extra in "$@"; do
  case "$extra" in
    check | bench | docs) ;;
    *) echo "tools/setup.sh: no extra named '$extra'; there are: check, bench, docs" >&2; exit 2 ;;
  esac
done

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else echo "tools/setup.sh: these system packages are missing and need root to install: ${missing[*]}" >&2; exit 1
  fi
}

if command -v dpkg-query >/dev/null; then
  missing=()
  for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} -gt 0 ]; then
    echo "Installing system packages: ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  fi
else
  echo "tools/setup.sh: not a Debian system; assuming that the equivalents of these are there: ${packages[*]}" >&2
fi

# environment NAME REQUIREMENTS...: a virtual environment that holds exactly these, rebuilt when they change.
environment() {
  local venv=$1; shift
  local python=${PYTHON:-python3} stamp="$venv/.stamp" want args=()
  want=$("$python" --version; pwd; cat "$@" tools/cpu_torch.py | sha256sum)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && "$venv/bin/python" -c '' 2>/dev/null; then return; fi
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "tools/setup.sh: the pinned packages need Python 3.11 or newer, $python is $("$python" --version);" \
        "name another one with PYTHON=..." >&2; exit 1; }
  echo "Setting up $venv"
  "$python" -m venv --clear "$venv"
  for file in "$@"; do args+=(-r "$file"); done
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "${args[@]}"
  local site; site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  # Our packages are used where they lie, without an install step after every build.
  echo "$PWD/python" > "$site/openpopxl.pth"
  if [ -d "$site/torch/lib" ]; then "$python" tools/cpu_torch.py "$site/torch/lib"; fi
  echo "$want" > "$stamp"
}

environment .venv "${requirements[@]}"
for extra in "$@"; do
  case "$extra" in
    check) environment .venv-check requirements/check.txt ;;
    docs) environment .venv-docs requirements/docs.txt ;;
    bench) environment .venv-bench "${requirements[@]}" requirements/bench.txt ;;
  esac
done
