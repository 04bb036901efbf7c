# run: the job's own status, output and arguments; its own errors; names of traces; nothing overwritten.
expect 0 tb run -- echo 'a  b' -x --help
same out <<'END'
a  b -x --help
END
[ -f echo-1.twinbit ] || fail "no trace: $(ls)"
expect 0 tb run true
[ -f true-1.twinbit ] || fail "no trace without --: $(ls)"
expect 0 tb run true
[ -f true-2.twinbit ] || fail "the second trace has no name of its own: $(ls)"
expect 0 tb show true-1.twinbit

# a script's trace has the script's name
echo 'exit 7' >job.sh
expect 7 tb run -- sh ./job.sh
[ -f job-1.twinbit ] || fail "not named after the script: $(ls)"
expect 3 tb run --quiet -- sh -c 'exit 3'
lines err 0
expect 143 tb run -- sh -c 'kill -TERM $$'
expect 137 tb run -- sh -c 'kill -KILL $$'

# input reaches the job, and its output is its own
printf 'one\ntwo\n' | tb run --quiet -- cat >out
same out <<'END'
one
two
END

# twinbit's own failures come before the job
expect 127 tb run -- ./absent
contains err absent
expect 126 tb run -- ./job.sh
expect 125 tb run -o no/such/folder/a.twinbit -- touch began
expect 125 tb run --libdir /nonexistent -- touch began
contains err "cannot find '/nonexistent' (--libdir)"
TWINBIT_LIBDIR=$PWD expect 125 tb run -- touch began
contains err TWINBIT_LIBDIR
: >mine.twinbit
expect 125 tb run -o mine.twinbit -- touch began
contains err mine.twinbit
[ ! -s mine.twinbit ] || fail "overwritten without --force"
[ ! -e began ] || fail "the job was run although twinbit failed"
expect 0 tb run -o mine.twinbit --force -- touch began
[ -e began ] || fail "the job was not run"
expect 0 tb show mine.twinbit
# a failure before the job leaves the old trace: here there is no interpreter
cp mine.twinbit kept
printf '#!/no/such/interpreter\n' >broken && chmod +x broken
expect 127 tb run -o mine.twinbit --force -- ./broken
cmp mine.twinbit kept || fail "the old trace is gone"
[ "$(ls mine.twinbit*)" = mine.twinbit ] || fail "left over: $(ls mine.twinbit*)"
mkdir folder
expect 0 tb run -o folder -- true
[ "$(ls folder | wc -l)" -eq 1 ] || fail "a folder gets one trace: $(ls folder)"

# bad options: one line, status 2, no job
bad() {
    local text=$1
    shift
    rm -f began
    expect 2 tb run "$@"
    lines out 0
    lines err 1
    contains err "$text"
    [ ! -e began ] || fail "the job was run"
}
bad "no command to run"
bad "no command to run" --level op --
bad "expected boundary|op" --level kernels -- touch began
bad "expected shim|cupti|none" --tap both -- touch began
bad "a share above 0" --sample 0 -- touch began
bad "is no pattern for a name" --kernel "!" -- touch began
bad "in all, at most" --kernel "$(printf '%0600d' 0)" -- touch began
bad "expected steps such as 3..9" --steps 9..3 -- touch began
bad "exclude each other" --steps 1..2 --from-step 3 -- touch began
bad "expected a size" --max-size 1X -- touch began
bad "16M at least, or 0 for no limit" --max-size 300k -- touch began
bad "is not an event name" --snapshot aten::addmm -- touch began
bad "1 to 1000 are possible" -n 0 -- touch began
bad "expected wait|drop" --on-full=stop -- touch began
bad "expected preload|python|none" --attach x -- touch began
bad "unknown option '--outputs'" --outputs a -- touch began
