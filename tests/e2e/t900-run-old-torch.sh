# run: the tap builds against older torch, records the same job there, and changes no bit of it.
# labels: torch slow
# timeout: 5400
# processors: 2
#
# Each tests/torch_versions/torch-*.txt is installed once (4-6 GB each), below the build folder; $TWINBIT_OLD_TORCH
# names another place. Python 3.11 or 3.12, since the oldest has wheels for no later one.
store=${TWINBIT_OLD_TORCH:-$TB_BUILD_DIR/torch_versions}
job=(--steps 2 --layers 2 --width 64 --batch 4 --context 64)
missing=
tested=0
export OMP_NUM_THREADS=1
need_program g++

find_python() {
    local p
    for p in python3.11 python3.12; do
        if "$p" -c 'import venv, ensurepip' 2>/dev/null; then
            command -v "$p"
            return
        fi
    done
    return 1
}

# install FOLDER REQUIREMENTS - a virtual environment; says why and returns 1 where that cannot be had
install() {
    local stamp=$1/installed python free
    cmp -s "$2" "$stamp" && return
    rm -rf "$1"
    mkdir -p "$1"
    python=$(find_python) || { echo "no python 3.11 or 3.12 with venv"; return 1; }
    free=$(df -Pk "$1" | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free" -ge 14 ] || { echo "$free GiB free below '$1', 14 are needed"; return 1; }
    if ! "$python" -m venv "$1" >log 2>&1 ||
        ! "$1/bin/pip" install --quiet --no-compile --no-cache-dir --no-deps -r "$2" >log 2>&1; then
        rm -rf "$1"
        echo "cannot install '${2##*/}': $(grep -v '^ *$' log | tail -n 1)"
        return 1
    fi
    cp "$2" "$stamp"
}

# train NAME COMMAND... - the job, after COMMAND; leaves NAME.stdout, NAME.pt
train() {
    local name=$1
    shift
    expect 0 "$@" "$PYTHON" "$TB_SOURCE_DIR/examples/gpt_char/train.py" "${job[@]}" --save weights.pt
    mv out "$name.stdout"
    mv weights.pt "$name.pt"
    mv err "$name.stderr"
    cmp "$name.stdout" bare.stdout || fail "torch $version: stdout of '$name' is not the bare job's"
    cmp "$name.pt" bare.pt || fail "torch $version: weights of '$name' are not the bare job's"
}

# record NAME OPTIONS... - the job under twinbit; what must hold for every recording
record() {
    local name=$1
    shift
    train "$name" "$TWINBIT" run --force -o "$name.twinbit" "$@" --
    lacks "$name.stderr" "recorded from Python"
    contains "$name.stderr" "nothing lost"
    expect 0 tb show "$name.twinbit"
    matches out '^events +[1-9][0-9]{2,}$'
    contains out "0 unseen writers"
    expect 0 tb show "$name.twinbit" env
    contains out "torch.version=$version"
}

check_places() {
    local where
    expect 0 tb show a.twinbit events
    for where in forward:h.1.attn.proj/aten::addmm backward:h.1.attn.proj/aten::mm \
        forward:h.0.ln_1/aten::native_layer_norm backward:h.1.mlp/aten::gelu_backward \
        optimizer:/aten::addcdiv_; do
        contains out "/main/1/$where#0"
    done
    expect 0 tb show a.twinbit tensors
    contains out "param:h.1.attn.proj.weight"
    contains out "grad:h.1.attn.proj.weight"
    contains out "exp_avg:h.1.attn.proj.weight"
}

check_version() {
    rm -rf cache ./*.twinbit ./*.stdout ./*.pt
    export XDG_CACHE_HOME=$PWD/cache
    local begin=$SECONDS
    TWINBIT_PYTHON=$PYTHON tb doctor >doctor 2>&1 || true # builds the tap, and waits for it as a job would not
    [ "$(ls cache/twinbit/*.so | wc -l)" -eq 1 ] || fail "torch $version: no tap was built: $(cat doctor)"
    echo "$TB_TEST: torch $version: tap of $(stat -c %s cache/twinbit/*.so) bytes in $((SECONDS - begin)) s"
    expect 0 "$PYTHON" "$TB_SOURCE_DIR/examples/gpt_char/train.py" "${job[@]}" --save weights.pt
    mv out bare.stdout
    mv weights.pt bare.pt
    contains bare.stdout "weights sha256"
    record a
    record b
    check_places
    for t in a b; do
        tb show "$t.twinbit" steps >"$t.steps"
        contains "$t.steps" "step 1"
    done
    cmp a.steps b.steps || fail "torch $version: digests of two equal runs differ"
    expect 0 tb diff a.twinbit b.twinbit
    contains out "IDENTICAL"
    record inputs --inputs
}

for requirements in "$TB_SOURCE_DIR"/tests/torch_versions/torch-*.txt; do
    version=$(basename "$requirements" .txt)
    version=${version#torch-}
    if ! why=$(install "$store/$version" "$requirements"); then
        missing="$missing torch $version: $why;"
        continue
    fi
    PYTHON=$store/$version/bin/python
    version=$("$PYTHON" -c 'import torch; print(torch.__version__)')
    check_version
    tested=$((tested + 1))
done
[ -z "$missing" ] || skip "$tested tested;$missing"
[ "$tested" -ge 1 ] || fail "no requirements in tests/torch_versions"
