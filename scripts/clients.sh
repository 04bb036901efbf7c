#!/bin/bash
# Makes build/clients-venv with the pins of requirements-clients.txt and prints its python as the last line. What
# the Python of twinbit has (torch, triton, numpy, NVRTC) is seen from there through a .pth file, not copied.
# Fails with the reason if it cannot be had. Safe to call from several tests at once.
#
# usage: scripts/clients.sh           installs what is missing
#        scripts/clients.sh --print   only looks: fails if it is not there
#
# TWINBIT_PYTHON: as for scripts/python.sh; with `none` there are no clients
set -eu
cd "$(dirname "$0")/.."

venv=build/clients-venv
case ${1:-} in
"" | --print) ;;
*)
    echo "usage: scripts/clients.sh [--print]" >&2
    exit 2
    ;;
esac

base_python() {
    case ${TWINBIT_PYTHON:-} in
    none)
        echo "no clients: TWINBIT_PYTHON=none" >&2
        return 1
        ;;
    "") [ -x .venv/bin/python ] && echo .venv/bin/python || command -v python3 ;;
    *) command -v "$TWINBIT_PYTHON" ;;
    esac
}
base=$(base_python) || {
    [ "${TWINBIT_PYTHON:-}" = none ] || echo "no clients: cannot run '${TWINBIT_PYTHON:-python3}'" >&2
    exit 1
}
sites=$("$base" -c 'import site, sys; print(sys.version.split()[0], *site.getsitepackages(), sep="\n")')
want=$({ cat requirements-clients.txt requirements-lock.txt && echo "$sites"; } | sha256sum)
done_before() { [ "$(cat $venv/twinbit-requirements 2>/dev/null)" = "$want" ]; }

install_clients() {
    echo "the clients of requirements-clients.txt go into $venv" >&2
    rm -rf $venv
    "$base" -m venv $venv || {
        echo "no clients: '$base' cannot make a venv; scripts/packages.sh python mends that" >&2
        return 1
    }
    echo "$sites" | tail -n +2 >"$($venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/twinbit.pth"
    $venv/bin/python -m pip install --disable-pip-version-check --no-input -q -r requirements-clients.txt >&2 || {
        echo "no clients: pip could not install requirements-clients.txt" >&2
        return 1
    }
    echo "$want" >$venv/twinbit-requirements
}

if ! done_before; then
    if [ "${1:-}" = --print ]; then
        echo "no clients: scripts/clients.sh installs them" >&2
        exit 1
    fi
    mkdir -p build
    exec 9>build/clients-venv.lock
    flock 9
    done_before || install_clients </dev/null
fi
echo "$PWD/$venv/bin/python"
