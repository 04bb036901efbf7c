# labels: torch
# Pins of packages: FlashAttention's functions take deterministic=True, TensorFlow its deterministic operators and a seed. The
# packages are stand-ins with the names and signatures of the real ones, which are not installed here.
need_python
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }
pin() { "$TWINBIT" show t.twinbit pins | grep -E "^[a-z]+ +$1 " >pin || fail "no row of '$1'"; }

mkdir -p flash_attn tensorflow/python/framework
cat >flash_attn/flash_attn_interface.py <<'END'
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    """Attention."""
    return "func", deterministic, return_attn_probs


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False,
                                     window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                     return_attn_probs=False):
    return "packed", deterministic


def flash_attn_with_kvcache(q, k_cache, v_cache):
    return "cache"


def _flash_attn_forward(q, deterministic=False):
    return "inner", deterministic
END
echo 'from flash_attn.flash_attn_interface import *
from flash_attn.flash_attn_interface import _flash_attn_forward' >flash_attn/__init__.py
cat >attend.py <<'END'
import pickle
import sys
import flash_attn
from flash_attn import flash_attn_func, flash_attn_varlen_qkvpacked_func
print(flash_attn_func(1, 2, 3, causal=True), flash_attn_varlen_qkvpacked_func(1, 2, 3))
print(flash_attn.flash_attn_with_kvcache(1, 2, 3), flash_attn._flash_attn_forward(1))
print(pickle.loads(pickle.dumps(flash_attn_func)) is flash_attn_func, flash_attn_func.__doc__)
if "own" in sys.argv:
    print(flash_attn_func(1, 2, 3, deterministic=False))
    print(flash_attn_func(1, 2, 3, 0.0, None, False, (-1, -1), 0.0, None, False, True))
END
expect 0 run -- "$PYTHON" attend.py own # observed
[ "$(sed -n 1p out)" = "('func', False, False) ('packed', False)" ] || fail "changed without a pin: $(cat out)"
expect 0 run --pin strict -- "$PYTHON" attend.py
[ "$(tr '\n' '|' <out)" = "('func', True, False) ('packed', True)|cache ('inner', False)|True Attention.|" ] || fail "$(cat out)"
pin kernels.flash_attention
matches pin '^held +kernels.flash_attention +requested True, observed True'
expect 0 run --pin strict -- "$PYTHON" attend.py own
[ "$(tail -n 2 out | tr '\n' '|')" = "('func', False, False)|('func', False, True)|" ] || fail "the job's own: $(cat out)"
contains err "pin kernels.flash_attention: the job has False at attend.py:9, which wins over True"
expect 0 run --pin strict --force-pins -- "$PYTHON" attend.py own
[ "$(tail -n 2 out | tr '\n' '|')" = "('func', True, False)|('func', True, True)|" ] || fail "forced: $(cat out)"
lacks err "pin kernels.flash_attention"
pin kernels.flash_attention
contains pin "held "
contains pin "True (the job asked for False), at attend.py:9"
expect 0 run --pin strict,'!kernels.flash_attention' -- "$PYTHON" attend.py
[ "$(sed -n 1p out)" = "('func', False, False) ('packed', False)" ] || fail "taken out: $(cat out)"
# of a version without the argument nothing can be held
printf 'def flash_attn_func(q, k, v):\n    return "old"\n' >flash_attn/flash_attn_interface.py
echo 'from flash_attn.flash_attn_interface import flash_attn_func' >flash_attn/__init__.py
expect 0 run --pin strict -- "$PYTHON" -c 'import flash_attn; print(flash_attn.flash_attn_func(1, 2, 3))'
contains out old
contains err "pin kernels.flash_attention: set to True, but default of 0 functions of flash_attn.flash_attn_interface was seen"

# TensorFlow: seeded before its operators are made deterministic, for random ones raise without a seed
echo 'on = False
def is_op_determinism_enabled():
    return on' >tensorflow/python/framework/config.py
cat >tensorflow/__init__.py <<'END'
import types
from tensorflow.python.framework import config as _config
_seed = None
def _set_seed(seed):
    global _seed
    _seed = seed
def _enable_op_determinism():
    print("seeded first:", _seed is not None)
    _config.on = True
def _uniform(shape):
    if _config.on and _seed is None:
        raise RuntimeError("Random ops require a seed to be set when determinism is enabled.")
    return _seed
random = types.SimpleNamespace(set_seed=_set_seed, uniform=_uniform)
random.__name__ = "tensorflow.random"
config = types.SimpleNamespace(experimental=types.SimpleNamespace(enable_op_determinism=_enable_op_determinism))
END
printf 'import sys, tensorflow as tf\nif len(sys.argv) > 1:\n    tf.random.set_seed(5)\nprint(tf.random.uniform([1]))\n' >flow.py
expect 0 run --pin strict -- "$PYTHON" flow.py # a seed only: strict leaves the operators as they are
number=$(cat out)
matches out '^[0-9]+$'
expect 0 run --pin strict,compile.tensorflow -- "$PYTHON" flow.py
[ "$(tr '\n' '|' <out)" = "seeded first: True|$number|" ] || fail "$(cat out)"
pin compile.tensorflow
matches pin '^held +compile.tensorflow +requested True, observed True'
pin compile.tensorflow_seed
contains pin "held "
expect 0 run --pin compile.tensorflow -- "$PYTHON" flow.py 5
contains out 5
contains err "pin compile.tensorflow_seed is added: compile.tensorflow needs it"
contains err "pin compile.tensorflow_seed: the job has 5 at flow.py:3, which wins over $number"
expect 0 run --pin compile.tensorflow --force-pins -- "$PYTHON" flow.py 5
contains out "$number"
RANK=1 expect 0 run --pin strict -- "$PYTHON" flow.py
[ "$(cat out)" != "$number" ] || fail "ranks draw the same"
# switched off behind our back: told
echo 'import tensorflow.python.framework.config as c; c.on = False' >>flow.py
expect 0 run --pin compile.tensorflow -- "$PYTHON" flow.py
contains err "pin compile.tensorflow: the job changed it from True to False"

# under torch.compile: no graph is broken, and the call that says nothing is pinned
need_torch
cat >flash_attn/flash_attn_interface.py <<'END'
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return (q + k + v) * (2.0 if deterministic else 1.0)
END
cat >compiled.py <<'END'
import torch
from flash_attn import flash_attn_func
f = torch.compile(lambda x: flash_attn_func(x, x, x) + flash_attn_func(x, x, x, deterministic=False), backend="eager",
                  fullgraph=True)
print(f(torch.ones(2)).tolist())
END
expect 0 run --pin kernels.flash_attention -- "$PYTHON" compiled.py
contains out "[9.0, 9.0]"
pin kernels.flash_attention
contains pin "given "
