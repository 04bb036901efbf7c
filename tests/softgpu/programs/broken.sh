#!/bin/bash
# A broken device under `softgpu run`: the program finds what is broken, the log is JSON and says the
# same, whatever the number of workers, and what it holds can be injected again. A bad variable alone
# leaves no device.
#
# usage: broken.sh BUILD PROGRAM   PROGRAM: broken_sm
set -u
build=$1
program=$2
. "$(dirname "$0")/env.sh"
if [ -n "${sanitizer:-}" ]; then
    echo "skipped: a sanitizer's library cannot be preloaded into foreign programs"
    exit 77
fi
unset LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run=("$build/bin/softgpu" run)
fault='sm=2 unit=fma bit=9 when=|x|>1.5 rate=0.01 seed=4'

# runs NAME OPTIONS... - the program under them; its output in $work/NAME, status 0
runs() {
    local name=$1
    shift
    "${run[@]}" "$@" -- "$program" >"$work/$name" 2>&1 && return
    echo "$name: $*"
    cat "$work/$name"
    exit 1
}

same() { # the logs without their heads
    diff <(tail -n +2 "$work/$1") <(tail -n +2 "$work/$2") >"$work/diff" && return
    echo "$1 and $2 differ:"
    head -n 5 "$work/diff"
    exit 1
}

runs sound --workers 1
runs one --workers 1 --fault "$fault" --fault-log "$work/one.log"
runs two --workers 2 --fault "$fault" --fault-log "$work/two.log"
same one.log two.log
runs again --workers 2 --fault-replay "$work/one.log" --fault-log "$work/again.log"
same one.log again.log
runs again --workers 2 --fault-replay "$work/one.log" --fault-log "$work/again.log" # the old one goes
python3 - "$work/one.log" <<'END' || exit 1
import json, sys
head, *lines = map(json.loads, open(sys.argv[1]))
assert head["softgpu_faults"] == 1 and head["sms"] == 4, head
faults = [x for x in lines if x["kind"] == "fault"]
launches = [x for x in lines if x["kind"] == "launch"]
assert len(faults) > 10 and len(launches) == 2, lines
assert all(x["sm"] == 2 and x["op"].startswith("fma.rn.f32") for x in faults)
assert all(int(x["before"], 0) ^ int(x["after"], 0) == 1 << 9 for x in faults)
assert sum(x["logged"] for x in launches) == len(faults)
assert all(x["masked"] is False for x in launches)
END
if "${run[@]}" --seed 3 --fault-replay "$work/one.log" -- "$program" >"$work/out" 2>&1 ||
    ! grep -q "another seed" "$work/out"; then
    echo "a log of another seed was replayed:"
    cat "$work/out"
    exit 1
fi

# refuses TEXT OPTIONS... - status 2 and a line with TEXT, and the program is not started
refuses() {
    local text=$1 status=0
    shift
    "${run[@]}" "$@" -- "$program" >"$work/out" 2>&1 || status=$?
    [ $status = 2 ] && grep -qF -- "$text" "$work/out" && return
    echo "status $status, not 2 with '$text': $*"
    cat "$work/out"
    exit 1
}

# what is somebody's is never removed, what is to be replayed neither; devices and pipes are written to
cp "$work/one.log" "$work/kept"
refuses "another file than the one that is replayed" --fault-replay "$work/one.log" --fault-log "$work/one.log"
refuses "of use with SOFTGPU_FAULT" --fault-replay "$work/one.log" --fault "$fault"
refuses "an empty --fault" --fault ""
refuses "nothing is specified" --fault " ;;"
refuses "cannot read the log of faults" --fault-replay "$work/none.log"
refuses "not a log of faults" --fault-replay "$0"
refuses "cannot write the log of faults" --fault "$fault" --fault-log "$work/none/log"
cmp "$work/one.log" "$work/kept" || exit 1
echo precious >"$work/mine"
for option in --fault-log --report; do
    refuses "name another file" --fault "$fault" --strict report $option "$work/mine"
    refuses "it is a folder" --fault "$fault" --strict report $option "$work"
done
[ "$(cat "$work/mine")" = precious ] || exit 1
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped" &
runs piped.out --workers 1 --fault "$fault" --fault-log "$work/pipe"
wait
[ -p "$work/pipe" ] && cmp "$work/one.log" <(sed "s/\"pid\":[0-9]*/$(grep -o '"pid":[0-9]*' "$work/one.log")/" "$work/piped") || exit 1

# a replay that does not meet its faults, and a specification that nothing meets, say so
says() {
    local text=$1
    shift
    "${run[@]}" "$@" -- "$(dirname "$program")/vecadd" >"$work/out" 2>&1 && grep -q "$text" "$work/out" && return
    echo "no '$text': $*"
    cat "$work/out"
    exit 1
}
"${run[@]}" --fault "unit=fma rate=0.001 bit=3" --fault-log "$work/add.log" -- "$(dirname "$program")/vecadd" >"$work/out" 2>&1
sed 's/"serial":[0-9]*/"serial":999999/' "$work/add.log" >"$work/moved.log"
says "softgpu: 0 of the [1-9][0-9]* faults of the log were injected" --fault-replay "$work/moved.log"
says "softgpu: no fault was injected" --fault "unit=tensor"
! grep -q "injected" "$work/one" "$work/again" || exit 1

if LD_LIBRARY_PATH=$lib SOFTGPU_FAULT='unit=fpu' run_seeded 1 "$program" >"$work/out" 2>&1 ||
    ! grep -q "bad fault 'unit=fpu'.*no device is there" "$work/out"; then
    echo "a bad SOFTGPU_FAULT left a device:"
    cat "$work/out"
    exit 1
fi
echo "ok the log of a broken device repeats"
