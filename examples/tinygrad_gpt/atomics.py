"""A gradient of an embedding that is summed by atomics: tinygrad's code generator has none for CUDA, a kernel of one's
own may use them. It goes through the same door as tinygrad's own for AMD (USE_ATOMICS): a call with a gradient function.
"""
from tinygrad import Device, Tensor, dtypes
from tinygrad.uop.ops import KernelInfo, Ops, ProgramInfo, UOp

NAME = "embedding_grad_atomic"

# One block for each place of the text, one thread for each column: grad[tokens[place]][column] += rows[place][column].
# Blocks that have the same token add to the same row, in the order in which they come.
# tinygrad puts in VERSION and TARGET, as in the PTX that it writes itself.
SOURCE = """.version VERSION
.target TARGET
.address_size 64
.visible .entry NAME(.param .u64 grad, .param .u64 rows, .param .u64 tokens)
{
    .reg .b32 %place, %column, %width, %token, %index;
    .reg .b64 %grad, %rows, %tokens, %address;
    .reg .f32 %value;
    ld.param.u64 %grad, [grad];
    ld.param.u64 %rows, [rows];
    ld.param.u64 %tokens, [tokens];
    mov.u32 %place, %ctaid.x;
    mov.u32 %column, %tid.x;
    mov.u32 %width, %ntid.x;
    mad.wide.u32 %address, %place, 4, %tokens;
    ld.global.u32 %token, [%address];
    mad.lo.u32 %index, %place, %width, %column;
    mad.wide.u32 %address, %index, 4, %rows;
    ld.global.f32 %value, [%address];
    mad.lo.u32 %index, %token, %width, %column;
    mad.wide.u32 %address, %index, 4, %grad;
    red.global.add.f32 [%address], %value;
    ret;
}
""".replace("NAME", NAME)


def program(grad, rows, tokens):
    """The kernel as tinygrad keeps those that are written already: its buffers, its launch shape, its source."""
    buffers = [b.base for b in (grad, rows, tokens)]
    sink = UOp.sink(*buffers, arg=KernelInfo(name=NAME))
    shape = ProgramInfo(NAME, (tokens.numel(), 1, 1), (grad.shape[-1], 1, 1), globals=(0, 1, 2), outs=(0,), ins=(0, 1, 2),
                        target=Device["CUDA"].renderer.target)
    return UOp(Ops.PROGRAM, arg=shape, src=(sink, UOp(Ops.LINEAR, src=(*buffers, sink)), UOp(Ops.SOURCE, arg=SOURCE)))


def gradient(rows, call):
    """What backward() asks for: gradients of weight and tokens, from that of the rows that were looked up."""
    weight, tokens = call.src[1:]
    grad = Tensor.zeros(*weight.shape, dtype=dtypes.float32, device=weight.device).contiguous()
    return grad.uop.custom_kernel(rows, tokens, fxn=program)[0], None


def look_up(weight, tokens):
    """Rows of @weight, as nn.Embedding finds them; its gradient is the kernel's."""
    w, t = weight.as_param(0), tokens.as_param(1)
    one_hot = Tensor.arange(weight.shape[0]) == t.unsqueeze(-1)
    return Tensor.call(weight, tokens, fxn=one_hot.unsqueeze(-1).where(w, 0).sum(-2, dtype=w.dtype), grad_fxn=gradient)
