#!/bin/bash
# Writes docs/pins.md anew from the catalogue of pins, deterministic/pins.txt.
#
# usage: scripts/pins.sh
set -eu
cd "$(dirname "$0")/.."
[ $# -eq 0 ] || { echo "usage: scripts/pins.sh" >&2; exit 2; }
python3 deterministic/gen_pins.py --in deterministic/pins.txt --doc docs/pins.md
