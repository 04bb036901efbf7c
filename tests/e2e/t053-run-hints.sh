# what twinbit proposes can be pasted into a shell, from where the user is; and it says why nothing was recorded, that the
# device failed, and what --max-size has deleted
TOOL=$TB_BUILD_DIR/tests/recorder/cuda
[ -x "$TOOL/cuda_streams" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
run=("$TWINBIT" run --device softgpu --force)

hint() { # hint FILE - the command behind "next: " in it, ./hint
    sed -n "s/.*next: \(.*\), or record again.*/\1/p" "$1" >hint
    [ -s hint ] || fail "no hint in: $(cat "$1")"
}

for name in -x.twinbit "it's.twinbit" "a b.twinbit" plain.twinbit; do
    expect 0 "${run[@]}" -o "$name" -- "$TOOL/cuda_streams" same
    hint err
    expect 0 bash -c "$(cat hint)"
    contains out "cuda_streams same"
done

# from another folder, with the program as it was called and the variables that the runs differed in
mkdir job other
cd job
for seed in 1 2; do
    SOFTGPU_SEED=$seed expect 0 "${run[@]}" -o ../other/$seed.twinbit -- "$TOOL/cuda_streams" none
done
cd ../other
expect 1 "$TWINBIT" diff 1.twinbit 2.twinbit
matches out "next +cd .*/job && SOFTGPU_SEED='1' .*softgpu run --strict report -- "
sed -n 's/^ *next  *//p' out >hint
expect 0 bash -c "$(cat hint)"
contains err stream-race
cd ..

# names of the program's are words, whatever they hold, and command no terminal; lines in them lose nothing
for value in 1 2; do
    PITFALL_VALUE=$value expect 0 "${run[@]}" -o odd-$value.twinbit -- "$TOOL/cuda_pitfalls" names
    contains err "nothing lost"
done
expect 0 "$TWINBIT" show odd-1.twinbit tensors
contains out "it's \$(touch pwned)\`touch pwned\`?[31m:/cuMemcpyHtoD"
contains out "two?lines?[31m"
lacks out $'\033'
expect 1 "$TWINBIT" diff odd-1.twinbit odd-2.twinbit
lacks out $'\033'
sed -n 's/^ *next  *//p' out >hint
expect 1 bash -c "$(cat hint)"
contains out "elements    1 of 256 differ"
[ ! -e pwned ] || fail "a name was run: $(cat hint)"

# nothing was recorded, and why
expect 0 "${run[@]}" --tap none -o none.twinbit -- "$TOOL/cuda_streams" same
contains err "nothing was recorded: no process of the job loaded libtorch; --tap none leaves out work of a GPU"
if ! "$TWINBIT" doctor | grep -q "libcuda.so.1.*found"; then
    expect 0 "$TWINBIT" run --force -o none.twinbit -- true
    matches err "nothing was recorded: no process of the job loaded libtorch(; no libcuda.so.1 was found here: --device softgpu| or called)"
fi

# a fault is named: by run, show and diff
for t in a b; do
    expect 0 "${run[@]}" -o fault-$t.twinbit -- "$TOOL/cuda_pitfalls" fault
    contains err "returned CUDA_ERROR_ILLEGAL_ADDRESS (700): work on the device failed"
    contains err "the last kernel launched was 'wild'"
done
"$TWINBIT" show fault-a.twinbit coverage >rows
matches rows "not covered +1x fault: wild: cuCtxSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS"
expect 3 "$TWINBIT" diff fault-a.twinbit fault-b.twinbit
contains out "work on the device failed (A 1, B 1): the last kernel launched before was 'wild'"
