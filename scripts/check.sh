#!/bin/bash
# The checks of the house style; .ci/run runs all of them.
#
# usage: scripts/check.sh [NAME...]   no NAME: all; --list prints the names
set -eu -o pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8

all="hygiene commits format headers python clang tidy cppcheck asan tsan"

jobs=$(nproc)

say() {
    echo "check: $*"
}

fail() {
    echo "check: $*" >&2
    exit 1
}

# tracked PATTERN... - tracked files, those that are deleted in the working tree left out
tracked() {
    git ls-files -- "$@" | while read -r f; do
        if [ -f "$f" ]; then echo "$f"; fi
    done
}

# no unfinished work, no path of somebody's machine, no big file, no stray blanks
check_hygiene() {
    local bad=0 f
    if git grep -nIE '(^|[^A-Za-z0-9_.-])/(root|home/[a-z]+)/' -- . ':!LICENSE'; then
        echo "a path of somebody's machine" >&2
        bad=1
    fi
    if git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.c' '*.h' '*.cc' '*.py' ':!scripts/check.sh' '*.sh'; then
        echo "unfinished, by its own words" >&2
        bad=1
    fi
    if ! git diff --check "$(git hash-object -t tree /dev/null)" -- . ':!*.txt' ':!*.patch'; then
        echo "stray blanks" >&2
        bad=1
    fi
    if tracked | xargs -d '\n' -r stat -c '%s %n' -- | awk '$1 > 2097152 { print; found = 1 } END { exit !found }'; then
        echo "a file of more than 2 MiB" >&2
        bad=1
    fi
    for f in $(tracked '*.sh' .ci/run tests/e2e/run tests/bugs/run); do
        bash -n "$f" || bad=1
    done
    return $bad
}

# subjects: "area: imperative", at most 80 characters, no full stop
check_commits() {
    git log --no-merges --format='%h %s' | awk '
        { s = substr($0, length($1) + 2) }
        s !~ /^[a-z0-9][a-z0-9_.,\/+ -]*: [^ ]/ || length(s) > 80 || s ~ /\.$/ { print; bad = 1 }
        END { exit bad }' || fail "subjects must be 'area: imperative summary', 80 characters, no full stop"
}

check_format() {
    tracked '*.c' '*.h' '*.cc' '*.cpp' '*.cu' | grep -v '^recorder/torch/' |
        xargs -d '\n' clang-format-14 --dry-run -Werror
}

# every C header compiles alone; those that the C++ tap reads, as C++ too
check_headers() {
    local h cuda
    cuda=$(scripts/cuda_headers.sh --print) || fail "no CUDA headers: scripts/cuda_headers.sh --fetch"
    tracked '*.h' | grep -v '^recorder/torch/' | while read -r h; do
        echo "#include \"$h\"" | gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -Ibuild/dev/gen -isystem "$cuda" \
            -isystem build/nvml-headers/include -fsyntax-only -x c - || fail "'$h' does not compile alone"
    done
    for h in fingerprint/fingerprint.h recorder/wire.h recorder/recorder.h; do
        echo "#include \"$h\"" | g++ -std=c++17 -D_GNU_SOURCE -Wall -Wextra -Werror -I. \
            -fsyntax-only -x c++ - || fail "'$h' does not compile alone as C++"
    done
}

check_python() {
    local python=${TWINBIT_PYTHON:-python3}
    tracked '*.py' | xargs -d '\n' -r "$python" -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)
'
}

# build FOLDER CMAKE-OPTIONS... - configured once, then built
build() {
    local folder=$1
    shift
    [ -f "$folder/CMakeCache.txt" ] || cmake -S . -B "$folder" -G Ninja "$@" >/dev/null
    cmake --build "$folder" -j "$jobs" | tail -n 1
}

check_clang() {
    CC=clang-14 build build/clang -DCMAKE_BUILD_TYPE=RelWithDebInfo
}

# .clang-tidy says which checks; the commands are those of the clang build, the first of each file (some are
# compiled for two instruction sets)
check_tidy() {
    [ -f build/clang/compile_commands.json ] || check_clang
    mkdir -p build/tidy
    tracked '*.c' | grep -vE '^(tests|bench)/' | python3 -c '
import json, os, sys
wanted = {os.path.abspath(line.rstrip("\n")) for line in sys.stdin}
first = {}
for command in json.load(open("build/clang/compile_commands.json")):
    if command["file"] in wanted:
        first.setdefault(command["file"], command)
json.dump(list(first.values()), open("build/tidy/compile_commands.json", "w"))
print("\n".join(first))' |
        xargs -d '\n' -r -P "$jobs" -n 4 clang-tidy-14 -p build/tidy --quiet 2>&1 |
        { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
}

check_cppcheck() {
    tracked '*.c' | grep -vE '^(tests|bench)/' | xargs -d '\n' cppcheck --quiet -j "$jobs" --std=c11 \
        --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -I. -D_GNU_SOURCE -D__x86_64__=1 \
        --suppress=missingIncludeSystem --suppress=unknownMacro --template=gcc \
        '--suppress=constStatement:softgpu/exec/ops_*.c' # values of statement expressions
}

check_asan() {
    build build/asan --preset asan
    # Tests of faults preload a library of their own before the sanitizer's.
    ASAN_OPTIONS=verify_asan_link_order=0 UBSAN_OPTIONS=print_stacktrace=1 \
        scripts/test.sh build/asan -L unit -LE 'slow|gpu|torch'
}

# rings, attach and the collector's threads; the software device's queues and workers
check_tsan() {
    build build/tsan --preset tsan
    scripts/test.sh build/tsan -R '^(recorder|collector)\.|^softgpu\.(driver|cupti_activity|strict_order|exec_(cluster|control|corpus))' -L unit -LE 'slow|gpu|torch'
}

if [ "${1:-}" = --list ]; then
    echo "$all"
    exit 0
fi
[ $# -gt 0 ] || set -- $all
for name; do
    declare -F "check_$name" >/dev/null || fail "no check '$name', only: $all"
done
# Not `check || fail`: that would switch `set -e` off inside the check.
trap '[ $? -eq 0 ] || echo "check: $name failed" >&2' EXIT
for name; do
    start=$SECONDS
    say "$name"
    "check_$name" </dev/null
    say "$name: passed in $((SECONDS - start)) s"
done
