# What pins cannot get at is said: a Python that keeps them out, a file of pins that is none.
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

# nobody ever writes into it: an error, at once
mkfifo team.pins
expect 2 timeout 20 "$TWINBIT" run --pin ./team.pins -- touch ran
contains err "cannot read the file of pins './team.pins': it is no regular file; write the pins into one"
expect 2 timeout 20 "$TWINBIT" bisect-pins --pin team.pins -- touch ran
contains err "it is no regular file"

# files that name nothing or are no text, values that cannot be set; a byte order mark is none of the text
printf '# nothing\n\n' >empty.pins
printf 'basic\0strict\n' >nul.pins
expect 2 run --pin empty.pins -- touch ran
contains err "the file of pins 'empty.pins' names nothing: write profiles and pins into it"
expect 2 run --pin nul.pins -- touch ran
contains err "cannot read the file of pins 'nul.pins': it holds a NUL byte, so it is no text; save it as UTF-8"
printf '\357\273\277basic\r\nsystem.umask=077\r\n' >mark.pins
expect 0 run --pin mark.pins -- sh -c umask
[ "$(cat out)" = 0077 ] || fail "a byte order mark: $(cat out)"
for value in 3-1 1-0 0-3- ,1 1, 1,,2 5000 0-1-2; do
    echo "cpu.affinity = $value" >cpus.pins # a comma in --pin is between two pins
    expect 2 run --pin cpus.pins -- touch ran
    contains err "'$value' is no value of pin 'cpu.affinity', which takes a list of CPUs, such as 0-3,8"
done
expect 2 run --pin torch.sdpa=foo -- touch ran
contains err "'foo' is no value of pin 'torch.sdpa', which takes @keep"
echo 'cpu.affinity = 0-0,0' >cpus.pins
expect 0 run --pin cpus.pins -- true
[ ! -e ran ] || fail "the job was run"

need_python
for option in -I -E -S -BEs "-W ignore -I" "-X dev -S"; do
    # shellcheck disable=SC2086
    expect 0 run --pin basic -- "$PYTHON" $option -c 'print(1)'
    matches err "pins: 'python -[IES]' keeps twinbit's part in Python out .*; start the job without -[IES]"
    contains err "that nothing told of"
    lacks err "not used, or"
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
