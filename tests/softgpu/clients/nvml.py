"""NVML's own Python bindings, unmodified, and what torch.cuda asks them, with SOFTGPU_DEVICES=2."""
import os
import sys

os.environ["SOFTGPU_NVML"] = "device=1 temperature=85 power=300 utilization=37 ecc.uncorrected=1"
import pynvml as nv  # noqa: E402


def bindings():
    nv.nvmlInit()
    assert nv.nvmlDeviceGetCount() == 2
    handle = nv.nvmlDeviceGetHandleByIndex(1)
    assert nv.nvmlDeviceGetName(handle) == "softgpu sm_80"
    uuid = nv.nvmlDeviceGetUUID(handle)
    assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(uuid)) == 1
    assert nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU) == 85
    assert nv.nvmlDeviceGetTemperatureV(handle, nv.NVML_TEMPERATURE_GPU) == 85
    assert nv.nvmlDeviceGetPowerUsage(handle) == 300000
    assert nv.nvmlDeviceGetUtilizationRates(handle).gpu == 37
    assert nv.nvmlDeviceGetTotalEccErrors(handle, nv.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                          nv.NVML_VOLATILE_ECC) == 1
    assert nv.nvmlDeviceGetMemoryInfo(handle, nv.nvmlMemory_v2).total == 8 << 30
    assert nv.nvmlDeviceGetMigMode(handle) == [0, 0]
    # other processes of this machine may use theirs
    assert os.getpid() not in [p.pid for p in nv.nvmlDeviceGetComputeRunningProcesses(handle)]
    assert len(nv.nvmlDeviceGetCpuAffinity(handle, (os.cpu_count() + 63) // 64)) >= 1
    assert nv.nvmlDeviceGetPciInfo(handle).busId == "00000000:02:00.0"
    fabric = nv.c_nvmlGpuFabricInfo_v2_t()
    fabric.version = nv.nvmlGpuFabricInfo_v2
    nv.nvmlDeviceGetGpuFabricInfoV(handle, nv.byref(fabric))
    assert fabric.state == nv.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
    for refused in (nv.nvmlDeviceGetFanSpeed, nv.nvmlDeviceGetCurrentDriverModel):
        try:
            refused(handle)
        except nv.NVMLError_NotSupported:
            continue
        raise AssertionError(f"{refused.__name__} answers")
    nv.nvmlShutdown()
    try:
        nv.nvmlDeviceGetCount()
    except nv.NVMLError_Uninitialized:
        return
    raise AssertionError("answers after nvmlShutdown")


def from_torch(torch):
    assert torch.cuda.device_count() == 2
    assert torch.cuda.temperature(1) == 85
    assert torch.cuda.utilization(1) == 37
    assert torch.cuda.power_draw(1) == 300000
    assert torch.cuda.clock_rate(0) == 1410
    x = torch.zeros(1 << 20, device="cuda:1")
    torch.cuda.synchronize()
    assert torch.cuda.device_memory_used(1) >= x.numel() * 4
    users = [p.pid for p in processes(1)]
    assert os.getpid() in users, users
    assert f"process{os.getpid():>11d} uses" in torch.cuda.list_gpu_processes(1)


def processes(index):
    nv.nvmlInit()
    found = nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(index))
    nv.nvmlShutdown()
    return found


bindings()
print("nvidia-ml-py: ok")
try:
    import torch
except ImportError:
    print("torch: not here")
    sys.exit(0)
if (torch.version.cuda or "").startswith("13."):
    from_torch(torch)
    print("torch.cuda: ok")
