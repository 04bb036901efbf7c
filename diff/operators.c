/* What is known of PyTorch's operators by their names: why their results may depend on an order. */
#include "diff/diff_internal.h"

#include <string.h>

/* Operators that add many numbers into one: their result depends on the order */
static const char *const reductions[] = {
    "sum",
    "nansum",
    "mean",
    "norm",
    "linalg_vector_norm",
    "_foreach_norm",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "prod",
    "cumsum",
    "cumprod",
    "logsumexp",
    "logcumsumexp",
    "dot",
    "vdot",
    "inner",
    "_softmax",
    "_log_softmax",
    "softmax",
    "log_softmax",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_layer_norm",
    "native_layer_norm_backward",
    "native_group_norm",
    "native_group_norm_backward",
    "native_batch_norm",
    "native_batch_norm_backward",
    "_native_batch_norm_legit",
    "batch_norm",
    "nll_loss_forward",
    "nll_loss2d_forward",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "binary_cross_entropy",
    "trace",
    "avg_pool2d",
    "_adaptive_avg_pool2d",
    "cdist",
    "_cdist_forward",
    "_fused_rms_norm",
    "dist",
    "sum_to_size",
    "_euclidean_dist",
    "_ctc_loss",
};

/* Products of matrices and convolutions: libraries choose among algorithms, too */
static const char *const products[] = {
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "matmul",
    "linear",
    "addr",
    "ger",
    "convolution",
    "_convolution",
    "convolution_backward",
    "convolution_overrideable",
    "mkldnn_convolution",
    "mkldnn_linear",
    "thnn_conv2d",
    "_slow_conv2d_forward",
    "_slow_conv2d_backward",
    "slow_conv3d_forward",
    "cudnn_convolution",
    "miopen_convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_efficient_attention",
    "_scaled_mm",
    "_addmm_activation",
    "_int_mm",
    "_mkl_linear",
    "_linear_pointwise",
    "lstm",
    "_thnn_fused_lstm_cell",
    "mkldnn_rnn_layer",
    "_fused_sdp_choice",
    "einsum",
    "_grouped_mm",
};

/* Operators in which several threads may add to the same place, in no fixed order */
static const char *const scatters[] = {
    "index_add",
    "index_add_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "index_reduce",
    "index_reduce_",
    "put_",
    "embedding_dense_backward",
    "_embedding_bag_dense_backward",
    "embedding_backward",
    "bincount",
    "histc",
    "kthvalue",
    "grid_sampler_2d_backward",
    "upsample_bilinear2d_backward",
    "adaptive_max_pool2d_backward",
    "max_pool2d_with_indices_backward",
    "replication_pad2d_backward",
    "segment_reduce",
    "_segment_reduce_backward",
    "index_backward",
    "gather_backward",
};

static bool is_one_of(const char *const *list, size_t n, const char *name)
{
    const char *base = strstr(name, "::");
    base = base ? base + 2 : name;
    size_t len = strcspn(base, ".");

    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == len && strncmp(list[i], base, len) == 0)
            return true;
    return false;
}

bool op_is_reduction(const char *name)
{
    return is_one_of(reductions, TB_ARRAY_LEN(reductions), name);
}

bool op_is_product(const char *name)
{
    return is_one_of(products, TB_ARRAY_LEN(products), name);
}

bool op_is_scatter(const char *name)
{
    return is_one_of(scatters, TB_ARRAY_LEN(scatters), name);
}
