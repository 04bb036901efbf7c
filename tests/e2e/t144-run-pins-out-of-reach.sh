# programs that cannot read what 'twinbit run' has in TMPDIR are named: those of another user, and those that are started
# when the job has deleted it; a replay says why there are no decisions
unset XDG_RUNTIME_DIR

mkdir -p scratch
export TMPDIR=$PWD/scratch
cat >clean.sh <<'EOF'
shuf -i 1-1000000 -n1
rm -rf "$TMPDIR"
mkdir "$TMPDIR"
shuf -i 1-1000000 -n1
EOF
for profile in observe strict; do
    expect 0 "$TWINBIT" run --force --pin $profile -o clean -- sh clean.sh
    [ "$(wc -l <out)" -eq 2 ] || fail "the job was changed: $(cat out)"
    contains err "pins: the job deleted what 'twinbit run' has in TMPDIR: "
    lacks err "/draws'"
    expect 0 "$TWINBIT" show clean coverage
    contains out "pins: TMPDIR: the job deleted what 'twinbit run' has there"
done
expect 0 "$TWINBIT" run --force --pin observe -o clean -- sh clean.sh
expect 2 "$TWINBIT" replay --force -o again clean
contains err "its job deleted what 'twinbit run' had in TMPDIR; record it again, with another TMPDIR for twinbit"
expect 0 "$TWINBIT" run --force --pin observe -o kept -- env TMPDIR="$PWD/own" sh clean.sh
lacks err "the job deleted"
mv out first
expect 0 "$TWINBIT" replay --force -o again kept
contains out "$(cat first)"

[ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --clear-groups true 2>/dev/null || skip "who is not root cannot become another user"
expect 0 "$TWINBIT" run --force --pin strict -o user -- setpriv --reuid=65534 --clear-groups sh -c 'shuf -i 1-1000 -n1'
matches err "pins: not in '.*' \(1 time\): its entropy, .* are real: its user cannot read what 'twinbit run' has in TMPDIR"
need_python
cat >drop.py <<'EOF'
import os
os.chdir("/")
os.setuid(65534)
if os.fork() == 0:
    os.execl("/usr/bin/shuf", "shuf", "-i", "1-1000", "-n1")
os.wait()
EOF
expect 0 "$TWINBIT" run --force --pin strict -o user -- "$PYTHON" drop.py
contains err "became another user, or found no room below TMPDIR: what it drew from the system is not written down"
expect 0 "$TWINBIT" show user coverage
contains out "what it drew from the system could not be written down"
