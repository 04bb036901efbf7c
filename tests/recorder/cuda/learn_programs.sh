#!/bin/bash
# All programs of softgpu's suite with write sets that are learnt (--learn): nothing is seen to change that no code
# writes (what kernelinfo/ says of the PTX), and the programs do not notice.
#
# usage: learn_programs.sh BUILD [PROGRAM...]
set -u
build=$1
shift
source=$(cd "$(dirname "$0")/../../.." && pwd)/tests/softgpu/programs
programs=${*:-$(find "$build/tests/softgpu/programs" -maxdepth 1 -type f -executable -printf '%f\n' | sort)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

sets=0 ran=0 bad=0
for name in $programs; do
    [ "$name" != launch_callbacks ] || continue # it counts kernels by CUPTI, and so ours
    mapfile -t setting < <(sed -n '1,40s|^// env: ||p' "$source/$name.cu" | tr -d '"')
    env "${setting[@]}" timeout 60 "$build/bin/softgpu" run -- "$build/tests/softgpu/programs/$name" \
        >"$folder/plain" 2>/dev/null </dev/null
    want=$?
    env "${setting[@]}" timeout 120 "$build/bin/twinbit" run --device softgpu --force --level kernel --learn \
        -o "$folder/t.twinbit" -- "$build/tests/softgpu/programs/$name" >"$folder/out" 2>"$folder/err" </dev/null
    got=$?
    "$build/bin/twinbit" show "$folder/t.twinbit" coverage >"$folder/rows" 2>&1
    if [ $got -ne $want ] || grep -q "its code does not write" "$folder/rows"; then
        bad=$((bad + 1))
        echo "$name: status $got, without twinbit $want"
        grep "learnt" "$folder/rows"
    fi
    ran=$((ran + 1))
    sets=$((sets + $(grep -c "learnt: .* written: arg" "$folder/rows")))
done
echo "$ran programs, $sets kernels with a learnt write, $bad bad"
[ $bad -eq 0 ] && [ $ran -gt 0 ] && [ $sets -ge $((ran / 2)) ]
