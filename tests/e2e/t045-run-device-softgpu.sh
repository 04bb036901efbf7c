# `run --device softgpu` gives the job a software CUDA device and changes nothing else
[ -e "$TB_BUILD_DIR/softgpu/lib/libcuda.so.1" ] || skip "built without softgpu"

cat >job.py <<'PY'
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
name = ctypes.create_string_buffer(100)
count = ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
assert cuda.cuDeviceGetName(name, 100, 0) == 0
print(count.value, name.value.decode())
sys.exit(7)
PY
need_python
export SOFTGPU_DEVICES=3
expect 7 "$TWINBIT" run --device softgpu -o a.twinbit -- "$PYTHON" job.py
contains out "3 softgpu sm_80"
expect 2 "$TWINBIT" run --device nothing -o b.twinbit -- "$PYTHON" job.py
contains err "host|softgpu"
expect 2 "$TWINBIT" run --fault unit=int -- true
contains err "add --device softgpu"
expect 2 "$TWINBIT" run --device softgpu --fault unit=itn -- true
contains err "unit=itn is not one of int, fma"
