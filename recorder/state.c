#include "recorder/recorder_internal.h"

struct tb_rt tb_rt;
_Thread_local struct tb_rt_tls tb_tls __attribute__((tls_model("initial-exec")));
