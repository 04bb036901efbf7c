#include "cli/cli.h"
#include "softgpu/driver/uuid.h"
#include "softgpu/run/run.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct info_options {
    struct sg_run_options run;
    bool json;
};

#define AT(member) offsetof(struct info_options, member)

static const struct tb_cli_option options[] = {
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL, "for scripts"},
    {"--libdir", NULL, TB_CLI_STRING, AT(run.libdir), "DIR",
     "folder of libcuda.so.1 (also: SOFTGPU_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .program = "softgpu",
    .name = "info",
    .synopsis = "[options]",
    .about = "Prints the devices that programs would find, as the SOFTGPU_ variables and\n"
             "CUDA_VISIBLE_DEVICES have it.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
};

/* The calls that are needed, from our own library. */
struct api {
    CUresult (*init)(unsigned);
    CUresult (*count)(int *);
    CUresult (*name)(char *, int, CUdevice);
    CUresult (*attribute)(int *, CUdevice_attribute, CUdevice);
    CUresult (*memory)(size_t *, CUdevice);
    CUresult (*uuid)(CUuuid *, CUdevice);
    CUresult (*error)(CUresult, const char **);
};

static bool load(const char *libdir, struct api *api, struct tb_error *err)
{
    const struct {
        const char *name;
        size_t offset;
    } names[] = {
        {"cuInit", offsetof(struct api, init)},
        {"cuDeviceGetCount", offsetof(struct api, count)},
        {"cuDeviceGetName", offsetof(struct api, name)},
        {"cuDeviceGetAttribute", offsetof(struct api, attribute)},
        {"cuDeviceTotalMem_v2", offsetof(struct api, memory)},
        {"cuDeviceGetUuid_v2", offsetof(struct api, uuid)},
        {"cuGetErrorString", offsetof(struct api, error)},
    };
    char path[SG_RUN_PATH + 16];
    void *lib;

    snprintf(path, sizeof(path), "%s/libcuda.so.1", libdir);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        tb_fail(err, TB_ERR_SYS, "cannot load '%s': %s", path, dlerror());
        return false;
    }
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        void *f = dlsym(lib, names[i].name);

        if (!f) {
            tb_fail(err, TB_ERR_SYS, "no '%s' in '%s'", names[i].name, path);
            return false;
        }
        memcpy((char *)api + names[i].offset, &f, sizeof(f));
    }
    return true;
}

static int attribute(const struct api *api, CUdevice_attribute a, CUdevice d)
{
    int value = 0;

    return api->attribute(&value, a, d) == CUDA_SUCCESS ? value : 0;
}

static void print_device(const struct api *api, CUdevice d, bool json)
{
    char name[128] = "", uuid[SG_UUID_TEXT], bytes[32];
    size_t memory = 0;
    CUuuid id = {{0}};
    int major = attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    int minor = attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
    int sms = attribute(api, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d);
    int shared = attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d);

    api->name(name, sizeof(name), d);
    api->memory(&memory, d);
    api->uuid(&id, d);
    sg_uuid_text(&id, uuid);
    if (json) {
        printf("%s{\"device\": %d, \"name\": ", d ? ", " : "", d);
        tb_json_string(stdout, name);
        printf(", \"arch\": \"sm_%d%d\", \"memory\": %zu, \"sms\": %d, \"shared\": %d, \"uuid\": "
               "\"%s\"}",
               major, minor, memory, sms, shared, uuid);
        return;
    }
    printf("device %d: %s, sm_%d%d, %s, %d SMs reported, %d KiB shared memory a block, %s\n", d,
           name, major, minor, tb_cli_bytes(memory, bytes, sizeof(bytes)), sms, shared >> 10, uuid);
}

int sg_cmd_info(int argc, char **argv)
{
    struct info_options opt = {0};
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    char libdir[SG_RUN_PATH];
    const char *why = "";
    struct api api = {0};
    int status, n = 0;
    CUresult r;

    if (!tb_cli_parse(&command, argc, argv, &opt, &rest, &status))
        return status;
    if (rest.count)
        return tb_cli_usage(&command, "what is '%s'?", rest.item[0]);
    if (sg_run_libdir(opt.run.libdir, libdir, &err) != TB_OK || !load(libdir, &api, &err))
        return tb_cli_error(command.name, &err);
    r = api.init(0);
    if (r == CUDA_SUCCESS)
        r = api.count(&n);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NO_DEVICE) {
        api.error(r, &why);
        tb_fail(&err, TB_ERR_CUDA, "the driver does not start: %s (%d)", why, (int)r);
        return tb_cli_error(command.name, &err);
    }
    if (opt.json)
        printf("[");
    else if (n == 0)
        printf("no device is visible\n");
    for (int d = 0; d < n; d++)
        print_device(&api, d, opt.json);
    if (opt.json)
        printf("]\n");
    return tb_cli_flush(TB_EXIT_OK);
}
