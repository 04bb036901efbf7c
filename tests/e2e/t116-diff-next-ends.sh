# what next proposes, pasted again and again, comes to an end: it shows the element that differs, and asks for nothing that
# both runs were asked for already
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_threads
GRAPHS=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
VARIABLES=$TB_BUILD_DIR/tests/recorder/cuda/cuda_variables
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
unset SOFTGPU_STRICT
export SOFTGPU_SEED=1

follow() { # follow A B - reports in ./report.1 to ./report.N, the last one proposes nothing
    local command
    rm -f report.* next*
    expect 1 "$TWINBIT" diff "$1" "$2"
    mv out report.1
    for n in 1 2 3 4; do
        command=$(sed -n 's/^  next  *//p' "report.$n")
        [ -n "$command" ] || return 0
        (eval "$command") >"report.$((n + 1))" 2>err || true
        matches "report.$((n + 1))" '^DIVERGED '
    done
    fail "there is always something next: $(cat report.*)"
}

pair() { # pair COMMAND-A -- COMMAND-B
    local a=()
    while [ "$1" != -- ]; do
        a+=("$1")
        shift
    done
    shift
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o a.twinbit -- "${a[@]}"
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o b.twinbit -- "$@"
    follow a.twinbit b.twinbit
}

pair "$TOOL" numbers 4 -- "$TOOL" numbers 2
cat report.* >all
matches all "^  elements? "
lacks report.2 "coverage: left out"
pair "$VARIABLES" constant 1 -- "$VARIABLES" constant 2
cat report.* >all
matches all "^  elements? "
pair "$VARIABLES" managed 1 -- "$VARIABLES" managed 2
pair env PITFALL_VALUE=3 "$GRAPHS" branch_base -- env PITFALL_VALUE=9 "$GRAPHS" branch_base
