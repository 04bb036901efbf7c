# Traces of every released format stay readable: tests/store/traces/version-<user_version>.twinbit, made by
# tests/cli/make_trace when that version was current. Never regenerate one; add one when the version changes.
"$TB_BUILD_DIR/tests/cli/make_trace" now.twinbit
seen=0
for trace in "$TB_SOURCE_DIR"/tests/store/traces/version-*.twinbit; do
    cp "$trace" old.twinbit
    expect 0 tb show old.twinbit
    matches out '^state +complete$'
    matches out '^events +14$'
    matches out '^coverage +7 not covered, 0 unseen writers, 0 notes$'
    for view in events steps tensors coverage processes sites; do
        expect 0 tb show old.twinbit $view
        mv out old
        expect 0 tb show now.twinbit $view
        diff -u old out || fail "$view of $trace"
    done
    expect 0 tb diff old.twinbit now.twinbit
    contains out IDENTICAL
    cmp old.twinbit "$trace" || fail "reading changed it"
    seen=$((seen + 1))
done
[ "$seen" -gt 0 ] || fail "no traces"
