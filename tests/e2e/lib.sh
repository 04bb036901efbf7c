# What end-to-end tests share; read in by tests/e2e/run before the test, under `bash -eu`.
#
# Set here: TWINBIT (the program), TB_SOURCE_DIR, TB_BUILD_DIR, TB_TEST (the test's name), and after
# need_python or need_torch PYTHON. The current folder is empty and the test's own.

# fail TEXT... - say why and end the test
fail() {
    echo "$TB_TEST: $*" >&2
    exit 1
}

# skip TEXT... - nothing can be tested here: say why
skip() {
    echo "$TB_TEST: skipped: $*"
    exit 77
}

# expect STATUS COMMAND... - run it, stdout to ./out, stderr to ./err; its status must be STATUS
expect() {
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    if [ "$got" -ne "$want" ]; then
        echo "$TB_TEST: status $got, expected $want: $*" >&2
        echo "--- stdout (head)" >&2
        head -n 40 out >&2
        echo "--- stderr (head)" >&2
        head -n 40 err >&2
        exit 1
    fi
}

# contains FILE TEXT - the file has a line with this text in it, taken literally
contains() {
    grep -qF -- "$2" "$1" && return
    echo "$TB_TEST: no line of '$1' has: $2" >&2
    head -n 60 "$1" >&2
    exit 1
}

# matches FILE REGEX - as contains, for an extended regular expression
matches() {
    grep -qE -- "$2" "$1" && return
    echo "$TB_TEST: no line of '$1' matches: $2" >&2
    head -n 60 "$1" >&2
    exit 1
}

# lacks FILE TEXT - no line of the file has this text in it
lacks() {
    if grep -nF -- "$2" "$1" >&2; then
        fail "'$1' should not have: $2"
    fi
}

# replayed JOB... - two runs of it under `observe` print other lines, two replays of the first, a.twinbit, the same as it.
# What it printed is in ./first, the last replay c.twinbit
replayed() {
    local i
    expect 0 "$TWINBIT" run --quiet --force -o a.twinbit --pin observe -- "$@"
    cp out first
    expect 0 "$TWINBIT" run --quiet --force -o b.twinbit --pin observe -- "$@"
    cmp -s first out && fail "two runs have one order"
    for i in 1 2; do
        expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
        grep -v '^replay: ' out | cmp - first || fail "the replay differs: $(diff out first)"
        lacks err "not as recorded"
    done
}

# lines FILE N - the file has exactly N lines
lines() {
    local n
    n=$(wc -l <"$1")
    [ "$n" -eq "$2" ] && return
    echo "$TB_TEST: '$1' has $n lines, expected $2" >&2
    head -n 40 "$1" >&2
    exit 1
}

# same FILE - stdin is the expected text of FILE, after normalise
same() {
    cat >expected
    normalise <"$1" >normalised
    diff -u expected normalised >&2 || fail "'$1' is not what was expected"
}

# normalise - filter: times, sizes, addresses, this machine's paths become fixed words
normalise() {
    sed -E -e "s#$PWD#FOLDER#g" -e "s#$TB_BUILD_DIR#BUILD#g" -e "s#$TB_SOURCE_DIR#SOURCE#g" \
        -e 's/0x[0-9a-f]{6,}/ADDRESS/g' -e 's/[0-9]+(\.[0-9]+)? (ms|us|s)\b/TIME/g' \
        -e 's/[0-9]+(\.[0-9]+)? ([KMGT]iB|B)\b/SIZE/g'
}

# need_python - PYTHON is an interpreter ($TWINBIT_PYTHON, else the project's .venv, else python3), or skip
need_python() {
    local p
    if [ "${TWINBIT_PYTHON:-}" = none ]; then
        skip "TWINBIT_PYTHON=none"
    fi
    for p in "${TWINBIT_PYTHON:-}" "$TB_SOURCE_DIR/.venv/bin/python" python3; do
        if [ -n "$p" ] && command -v "$p" >/dev/null; then
            PYTHON=$(command -v "$p")
            export PYTHON
            return
        fi
    done
    skip "no python"
}

# need_torch - PYTHON has torch, or skip; need_module NAME - it has that module, or skip
need_torch() {
    need_module torch
}
need_module() {
    need_python
    "$PYTHON" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" ||
        skip "'$PYTHON' has no module '$1'"
}

# need_program NAME - it can be run, or skip
need_program() {
    command -v "$1" >/dev/null || skip "no program '$1'"
}

# tb ARGS... - the program; expect 0 tb run ... reads well
tb() {
    "$TWINBIT" "$@"
}
