# launchers that set PYTHONPATH anew, or take it out: twinbit's part in Python is in all the same, the job's own folders go
# behind it, and a replay has the decisions; a Python below the job's first program that reads no PYTHONPATH is named
need_python
mkdir -p own
echo 'ANSWER = 42' >own/mine.py
cat >job.py <<'EOF'
import random, time
import mine
random.seed(int(time.time() * 1e6))
print(mine.ANSWER, random.random(), random.Random().random())
EOF
cat >set.sh <<'EOF'
#!/bin/sh
PYTHONPATH=own exec "$@"
EOF
cat >unset.sh <<'EOF'
#!/bin/sh
cd own && env -u PYTHONPATH "$1" "../$2"
EOF
cat >child.py <<'EOF'
import os, subprocess, sys
env = dict(os.environ, PYTHONPATH="own")
sys.exit(subprocess.run([sys.executable, "job.py"], env=env).returncode)
EOF
sed 's/^import random/import sys, random/; s/^import mine/sys.path.insert(0, "."); import mine/' job.py >inner.py
chmod +x set.sh unset.sh

run() { # run TRACE PROFILE COMMAND... - standard output in ./out
    expect 0 "$TWINBIT" run --force --pin "$2" -o "$1" -- "${@:3}"
}

for command in "./set.sh $PYTHON job.py" "./unset.sh $PYTHON inner.py" "$PYTHON child.py"; do
    # shellcheck disable=SC2086 # several words
    run a strict $command
    mv out first
    # shellcheck disable=SC2086
    run b strict $command
    cmp -s first out || fail "$command: not repeated: $(cat first out)"
    contains out "42 "
    contains err "is taken from the clock"
    expect 0 "$TWINBIT" show a pins
    matches out '^held +python\.random '
    # shellcheck disable=SC2086
    run c observe $command
    mv out first
    expect 0 "$TWINBIT" replay --force -o d c
    contains out "$(cat first)"
done

for option in -I -E -S; do
    printf '#!%s %s\nprint(1)\n' "$PYTHON" $option >script
    chmod +x script
    for command in "sh -c '$PYTHON $option -c pass'" ./script; do
        expect 0 sh -c "'$TWINBIT' run --force --pin strict -o e -- $command"
        matches err "pins: 'python[0-9.]* $option' keeps twinbit's part in Python out \(1 time; .*\): pins of Python and torch are neither"
        lacks err "not in"
        expect 0 "$TWINBIT" show e coverage
        matches out "pins: python[0-9.]* $option: pins of Python and torch are neither set nor seen in it"
    done
done
expect 0 "$TWINBIT" run --force --pin strict -o e -- "$PYTHON" -c 'pass' -I
lacks err "keeps twinbit"
