# a trace is the file of that name, whatever SQLite takes such a name for
mkdir file:folder
for name in :memory: 'file:x?mode=memory' file:folder/x.twinbit 'a%41.twinbit' 'a?b#c.twinbit' -odd.twinbit; do
    expect 0 "$TWINBIT" run --quiet "--output=$name" -- echo hello
    [ -s "$name" ] || fail "'$name' is no file"
    expect 0 "$TWINBIT" show -- "$name" summary
    matches out '^state  *complete$'
    expect 3 "$TWINBIT" diff -- "$name" "$name"
    contains out "command, environment, versions and sources are equal"
done
