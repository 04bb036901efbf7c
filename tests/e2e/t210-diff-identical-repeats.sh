# A deterministic job recorded 21 times: every recording is identical to the first, and nothing is lost.
# labels: torch slow
# timeout: 1200
need_torch
job=("$PYTHON" "$TB_SOURCE_DIR/examples/gpt_char/train.py" --layers 2 --width 64 --steps 3)
export OMP_NUM_THREADS=1
expect 0 tb run -o first.twinbit -- "${job[@]}"
cp out first.out
contains err "nothing lost"
for k in $(seq 20); do
    expect 0 tb run --force -o next.twinbit -- "${job[@]}"
    cmp out first.out
    contains err "nothing lost"
    expect 0 tb diff first.twinbit next.twinbit
    contains out IDENTICAL
    echo "$k of 20 identical"
done
