# What pins cannot get at is said: a Python that keeps them out, a file of pins that is none.
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

# nobody ever writes into it: an error, at once
mkfifo team.pins
expect 2 timeout 20 "$TWINBIT" run --pin ./team.pins -- touch ran
contains err "cannot read the file of pins './team.pins': it is no regular file; write the pins into one"
expect 2 timeout 20 "$TWINBIT" bisect-pins --pin team.pins -- touch ran
contains err "it is no regular file"
[ ! -e ran ] || fail "the job was run"

need_python
for option in -I -E -S -BEs "-W ignore -I" "-X dev -S"; do
    # shellcheck disable=SC2086
    expect 0 run --pin basic -- "$PYTHON" $option -c 'print(1)'
    matches err "pins: 'python -[IES]' keeps twinbit's part in Python out .*; start the job without -[IES]"
    contains err "that nothing told of"
    lacks err "did not use"
done
# words of the job's own, and options that keep nothing out
for words in "-B -c pass -I" "-W E -c pass" "-Xdev -c pass -S"; do
    # shellcheck disable=SC2086
    expect 0 run --pin basic -- "$PYTHON" $words
    lacks err "keeps twinbit's part"
done
expect 0 run --pin basic -- env A=1 "$PYTHON" -I -c pass
contains err "'python -I' keeps"
expect 0 run --pin basic -- true -I
lacks err "keeps twinbit's part"
got=0
"$TWINBIT" pins --verify -- "$PYTHON" -I -c pass >out 2>err || got=$?
matches out "python.random .*does not read PYTHONPATH \(-I, -E\), or loads no site \(-S\)"
