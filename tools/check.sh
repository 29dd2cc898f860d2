#!/usr/bin/env bash
# Format, clang-tidy, and the C++ tests under the address, undefined-behaviour and thread sanitizers.
# Usage: tools/check.sh [format] [tidy] [asan] [tsan]     all of them when none is named
set -euo pipefail
cd "$(dirname "$0")/.."
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(format tidy asan tsan)
jobs=$(nproc)
export PATH="$PWD/.venv-check/bin:$PATH"
failed=()

cpp_files() { git ls-files 'src/*.cpp' 'src/*.h' 'include/*.h' 'tools/*.cpp' 'tests/*.cpp' 'tests/*.h' \
  'examples/*.cpp' 'bench/*.cpp'; }

format() { cpp_files | xargs --no-run-if-empty clang-format --dry-run --Werror; }

# Headers are checked through the sources; clang does not know every warning flag of g++.
tidy() {
  cmake --preset release > /dev/null && cmake --build --preset release --target popxl_generated &&
    python tools/tidy.py --jobs "$jobs"
}

sanitized() {
  cmake --preset "$1" > /dev/null &&
    cmake --build --preset "$1" --parallel "$jobs" &&
    ctest --preset "$1" --parallel "$jobs" --no-tests=error
}

for step in "${steps[@]}"; do
  echo "== $step"
  case "$step" in
    format | tidy) "$step" || failed+=("$step") ;;
    asan | tsan) sanitized "$step" || failed+=("$step") ;;
    *) echo "tools/check.sh: no step named '$step'" >&2; exit 2 ;;
  esac
done
[ ${#failed[@]} -eq 0 ] || { echo "check: failed: ${failed[*]}"; exit 1; }
echo "check: all passed"
