# two streams, each with its half of one allocation: a fingerprint of all of it may hold the other's writing. Such runs
# are right and equal: a difference that leads to nothing is no divergence
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"

for options in "" --inputs; do
    met=0
    for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
        # shellcheck disable=SC2086 # none or one
        expect 0 env SOFTGPU_SEED=$seed "$TWINBIT" run --device softgpu --quiet --force -o $seed.twinbit $options -- "$TOOL" halves
        [ $seed -gt 1 ] || continue
        expect 0 "$TWINBIT" diff 1.twinbit $seed.twinbit
        if grep -q 'note .* taken while another stream or node of its graph may have written there; those that were taken behind both are equal' out; then
            met=1
        fi
    done
    [ $met = 1 ] || fail "no seed let a fingerprint meet the other stream (options: '$options')"
done
