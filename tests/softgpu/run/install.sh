#!/bin/bash
# What `cmake --install` lays out: all that lies beside libcuda.so.1 in the build, and a `softgpu` that finds it.
#
# usage: install.sh CMAKE BUILD-FOLDER
set -eu
if [ -n "${TB_SANITIZE:-}" ]; then
    echo "skipped: a sanitizer's library cannot be preloaded into foreign programs"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
for v in $(compgen -v SOFTGPU_); do unset "$v"; done

"$1" --install "$2" --prefix "$work/there" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log"
    exit 1
}
diff <(ls "$2/softgpu/lib") <(ls "$work/there/lib/softgpu") || {
    echo "what was built (<) is not what was installed (>)"
    exit 1
}
"$work/there/bin/softgpu" info | grep -q '^device 0: softgpu'
# shellcheck disable=SC2016 # the program's variables
found=$("$work/there/bin/softgpu" run --eager -- sh -c 'echo "$LD_LIBRARY_PATH $TRITON_PTXAS_PATH $PYTHONPATH"')
for part in lib/softgpu lib/softgpu/softgpu-ptxas lib/twinbit/python/eager; do
    case $found in
    *"$work/there/$part"*) [ -e "$work/there/$part" ] || exit 1 ;;
    *)
        echo "no '$part' in '$found'"
        exit 1
        ;;
    esac
done
echo "all as it should be"
