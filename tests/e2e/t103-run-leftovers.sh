# What a twinbit that was killed has left in TMPDIR the next one clears away; never what is in use, or another's.
unset XDG_RUNTIME_DIR
mkdir tmp
export TMPDIR=$PWD/tmp
left() { find tmp -mindepth 1 -maxdepth 2 -name 'twinbit-*' | sort; }
until_true() { # until_true COMMAND...
    for _ in $(seq 200); do
        "$@" && return
        sleep 0.05
    done
    fail "never true: $*"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

cat >job.sh <<'END_OF_JOB'
echo $$ >job.pid
exec sleep 300
END_OF_JOB
next_run() { "$TWINBIT" run --quiet --force -o n.twinbit -- true 2>err; }

for command in "run -o a.twinbit --force --quiet" "bisect"; do
    rm -f job.pid
    # shellcheck disable=SC2086
    "$TWINBIT" $command -- sh job.sh >log 2>&1 &
    twinbit=$!
    until_true test -s job.pid
    before=$(left)
    [ -n "$before" ] || fail "$command has no folder in TMPDIR"
    next_run # it lives
    [ "$(left)" = "$before" ] || fail "$command: a folder in use was taken away: $(left)"
    kill -9 "$twinbit"
    wait "$twinbit" 2>/dev/null || true
    if ! gone "$(cat job.pid)"; then # the job may still look there
        next_run
        for folder in $before; do
            if tr '\0' '\n' <"/proc/$(cat job.pid)/environ" | grep -q "$folder"; then
                [ -e "$folder" ] || fail "$command: the job that lives lost $folder"
            fi
        done
        kill -9 "$(cat job.pid)"
        until_true gone "$(cat job.pid)"
    fi
    next_run
    [ -z "$(left)" ] || fail "$command: left behind: $(left)"
done

# what is not known to be ours and dead stays: no owner, another machine's, other names, links
mkdir -m 700 tmp/twinbit-aaaaaa tmp/twinbit-bbbbbb tmp/mine-cccccc keep
echo "1999999 1 00000000-0000-0000-0000-000000000000 pid:[1]" >tmp/twinbit-bbbbbb/owner
boot=$(cat /proc/sys/kernel/random/boot_id)
echo "1999999 1 $boot $(readlink /proc/self/ns/pid)" | tee tmp/mine-cccccc/owner >keep/owner
ln -s ../keep tmp/twinbit-dddddd
next_run
[ -d tmp/twinbit-aaaaaa ] && [ -d tmp/twinbit-bbbbbb ] && [ -d tmp/mine-cccccc ] && [ -L tmp/twinbit-dddddd ] &&
    [ -e keep/owner ] || fail "too much was taken away: $(ls tmp)"
mkdir -m 700 tmp/twinbit-eeeeee
cp keep/owner tmp/twinbit-eeeeee
next_run
[ ! -e tmp/twinbit-eeeeee ] || fail "a dead one's folder stays"

# a job that lists its TMPDIR sees the same in each run; nothing stays behind
rm -rf tmp/*
for i in 1 2; do
    expect 0 "$TWINBIT" run --quiet --force -o l.twinbit --pin strict -- sh -c 'ls "$TMPDIR"; ls -A "$TMPDIR"'
    mv out list$i
    [ -z "$(ls -A tmp)" ] || fail "left behind: $(ls -A tmp)"
done
printf '.twinbit-%s\n' "$(id -u)" | cmp list1 - || fail "the job sees: $(cat list1)"
cmp list1 list2 || fail "the job sees another TMPDIR in the second run"

# a TMPDIR that cannot be written: the job runs, with what twinbit needs in /tmp. A folder that is not its own it leaves alone
touch file
for TMPDIR in "$PWD/file" "$PWD/none" /proc; do
    expect 0 "$TWINBIT" run --force -o l.twinbit --pin strict -- sh -c 'echo ran'
    contains out ran
    expect 2 "$TWINBIT" pins --verify -- true
    contains err "cannot make a folder in '$TMPDIR': set TMPDIR to a folder that can be written"
done
export TMPDIR=$PWD/tmp
ln -s ../keep "tmp/.twinbit-$(id -u)"
expect 0 "$TWINBIT" run --quiet --force -o l.twinbit --pin strict -- true
[ "$(ls keep)" = owner ] || fail "written through a link: $(ls keep)"
