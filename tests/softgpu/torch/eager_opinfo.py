"""Every operator of torch's own table of sample inputs (OpInfo), with its CPU body: the values and gradients are
those of the CPU to the last bit. Prints what is not, and fails if that is more than is listed here with its reason.

usage: eager_opinfo.py [NAME...]
"""
import collections
import sys
import warnings

import torch

from twinbit import eager  # installed by `softgpu run --eager`

assert eager.installed()
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

RANDOM = {  # the device has numbers of its own: shape and type are compared
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.rrelu",
    "nn.functional.feature_alpha_dropout.with_train", "nn.functional.fractional_max_pool2d", "normal", "rand_like",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "normal.in_place",
    "nn.functional.scaled_dot_product_attention", "normal.number_mean", "pca_lowrank", "randint", "randint_like",
    "randn", "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
REFUSED = {  # by twinbit.eager or by torch, on every CUDA device
    "histogram": "not implemented for CUDA", "histogramdd": "not implemented for CUDA", "to_sparse": "sparse",
    "sparse.sampled_addmm": "sparse", "sparse.mm.reduce": "sparse", "tensor_split": "indices must be on the CPU",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "for the CPU only",
    "jiterator_unary": "for CUDA only", "jiterator_binary": "for CUDA only",
    "jiterator_4inputs_with_extra_args": "for CUDA only", "jiterator_binary_return_by_ref": "for CUDA only",
    "jiterator_2inputs_2outputs": "for CUDA only",
}  # fmt: skip
BACKWARD = {  # gradients that torch itself does not give, or gives differently by the device
    "renorm": "sums in f32 for CUDA, in f64 for the CPU", "linalg.eig": "undefined for this loss",
}  # fmt: skip
NOT_HERE = {  # the table's own samples do not fit
    "as_strided.partial_views": "looks beyond the tensor that is given", "chalf": "torch.equal has no ComplexHalf",
}  # fmt: skip


def mapped(value, f):
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, dict):
        return {k: mapped(v, f) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [mapped(v, f) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return "cuda"
    return value


def to_device(t):
    """With the same strides, since the order of sums may depend on them."""
    if t.layout is not torch.strided:
        return t.detach().to("cuda").requires_grad_(t.requires_grad)
    moved = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda")
    moved.copy_(t.detach())
    return moved.requires_grad_(t.requires_grad)


def flat(value):
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]


def difference(got, want, values):
    got, want = flat(got), flat(want)
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for g, w in zip(got, want):
        if not isinstance(w, torch.Tensor):
            if values and g != w and g == g:
                return f"{g} instead of {w}"
        elif g.dtype is not w.dtype or g.shape != w.shape:
            return f"{g.dtype} {tuple(g.shape)} instead of {w.dtype} {tuple(w.shape)}"
        elif values and not torch.allclose(g.detach().cpu(), w.detach(), rtol=0, atol=0, equal_nan=True):
            return f"apart by {(g.detach().cpu() - w.detach()).abs().max().item():.3g}"
    return ""


def gradients(result, inputs):
    outs = [t for t in flat(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for t in flat(list(inputs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outs or not leaves:
        return []
    total = sum((t * t.detach()).sum().real if t.is_complex() else t.sum() for t in outs)
    return [g for g in torch.autograd.grad(total, leaves, allow_unused=True) if g is not None]


def compare(op, sample, values, differentiable):
    host = (sample.input, *sample.args)
    device, kwargs = mapped(host, to_device), mapped(sample.kwargs, to_device)
    want = op.op(*host, **sample.kwargs)
    got = op.op(*device, **kwargs)
    found = difference(got, want, values)
    if not found and differentiable and values:
        found = difference(gradients(got, device), gradients(want, host), True)
        found = "gradient " + found if found else ""
    return found


def check(op, name):
    """"" if all is equal, or what is not."""
    kinds = op.supported_dtypes("cpu")
    if not kinds or not torch.cuda.is_available():
        return "not for the CPU"
    kind = torch.float32 if torch.float32 in kinds else sorted(kinds, key=str)[0]
    differentiable = op.supports_autograd and kind.is_floating_point and name not in BACKWARD
    values = name not in RANDOM and name not in UNWRITTEN
    try:
        for sample in list(op.sample_inputs("cpu", kind, requires_grad=differentiable))[:2]:
            found = compare(op, sample, values, differentiable)
            if found:
                return found
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0][:150] if str(e) else ''}"
    return ""


def main(wanted):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    count, unexpected = collections.Counter(), 0
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if (wanted and name not in wanted) or name in NOT_HERE:
            continue
        found = check(op, name)
        kind = "refused" if name in REFUSED else "not for the CPU" if found == "not for the CPU" else "equal"
        if kind == "equal" and found:
            kind, unexpected = "wrong", unexpected + 1
            print(f"{name}: {found}", flush=True)
        count[kind] += 1
    print(dict(count))
    assert not unexpected and (wanted or count["equal"] > 600)


main(sys.argv[1:])
