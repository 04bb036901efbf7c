#include "softgpu/nvml/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 4096 /* bytes of SOFTGPU_NVML */

static const struct {
    const char *name;
    uint64_t initial, most;
} settings[SG_NVML_SETTINGS] = {
    [SG_NVML_TEMPERATURE] = {"temperature", 40, 200},
    [SG_NVML_MEMORY_TEMPERATURE] = {"temperature.memory", 40, 200},
    [SG_NVML_POWER] = {"power", 75, 10000},
    [SG_NVML_POWER_LIMIT] = {"power.limit", 400, 10000},
    [SG_NVML_CLOCK_SM] = {"clock.sm", 1410, 10000},
    [SG_NVML_CLOCK_MEMORY] = {"clock.memory", 1215, 20000},
    [SG_NVML_UTILIZATION] = {"utilization", SG_NVML_UNSET, 100},
    [SG_NVML_UTILIZATION_MEMORY] = {"utilization.memory", SG_NVML_UNSET, 100},
    [SG_NVML_THROTTLE] = {"throttle", 0, 0x1ff},
    [SG_NVML_PSTATE] = {"pstate", 0, 15},
    [SG_NVML_ECC_CORRECTED] = {"ecc.corrected", 0, UINT32_MAX},
    [SG_NVML_ECC_UNCORRECTED] = {"ecc.uncorrected", 0, UINT32_MAX},
    [SG_NVML_RETIRED_SINGLE] = {"retired.single", 0, 64},
    [SG_NVML_RETIRED_DOUBLE] = {"retired.double", 0, 64},
    [SG_NVML_RETIRED_PENDING] = {"retired.pending", 0, 1},
    [SG_NVML_REMAPPED_CORRECTED] = {"remapped.corrected", 0, 512},
    [SG_NVML_REMAPPED_UNCORRECTED] = {"remapped.uncorrected", 0, 512},
    [SG_NVML_REMAPPED_PENDING] = {"remapped.pending", 0, 1},
    [SG_NVML_REMAPPED_FAILED] = {"remapped.failed", 0, 1},
    [SG_NVML_PCIE_REPLAYS] = {"pcie.replays", 0, UINT32_MAX},
    [SG_NVML_XID] = {"xid", 0, 1000},
    [SG_NVML_LOST] = {"lost", 0, 1},
};

/* Names of nvmlClocksEventReason bits, from bit 0 on. */
static const char *const reasons[] = {"idle",        "app_clocks",     "sw_power",
                                      "hw_slowdown", "sync_boost",     "sw_thermal",
                                      "hw_thermal",  "hw_power_brake", "display"};

static bool parse_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return !*end && errno == 0 && *out <= most;
}

/* "hw_thermal+sw_power", or the bits as a number. */
static bool parse_reasons(char *text, uint64_t most, uint64_t *out)
{
    char *save, *name = strtok_r(text, "+", &save);
    uint64_t bits = 0;

    if (parse_number(text, most, out))
        return true;
    for (; name; name = strtok_r(NULL, "+", &save)) {
        size_t i = 0;

        while (i < TB_ARRAY_LEN(reasons) && strcmp(reasons[i], name) != 0)
            i++;
        if (i == TB_ARRAY_LEN(reasons))
            return false;
        bits |= UINT64_C(1) << i;
    }
    *out = bits;
    return bits != 0;
}

static enum tb_status refuse_value(unsigned i, const char *value, struct tb_error *err)
{
    if (i == SG_NVML_THROTTLE)
        return tb_fail(err, TB_ERR_ARG,
                       "SOFTGPU_NVML: throttle='%s' is none of idle, app_clocks, sw_power, "
                       "hw_slowdown, sync_boost, sw_thermal, hw_thermal, hw_power_brake, display, "
                       "or several with '+' between",
                       value);
    return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML: %s='%s' is not a number from 0 to %" PRIu64,
                   settings[i].name, value, settings[i].most);
}

static enum tb_status refuse_name(const char *name, struct tb_error *err)
{
    char all[512] = "";

    for (unsigned i = 0; i < SG_NVML_SETTINGS; i++) {
        strncat(all, ", ", sizeof(all) - strlen(all) - 1);
        strncat(all, settings[i].name, sizeof(all) - strlen(all) - 1);
    }
    return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML: there is no '%s'; it may be device%s", name,
                   all);
}

/* One name=value; @about: is this group about the device that is asked for? */
static enum tb_status apply(char *word, bool first, unsigned physical, unsigned devices,
                            bool *about, struct sg_nvml_settings *out, struct tb_error *err)
{
    char *value = strchr(word, '=');
    uint64_t n;

    if (!value)
        return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML: '%s' is not name=value", word);
    *value++ = '\0';
    if (strcmp(word, "device") == 0) {
        if (!first)
            return tb_fail(err, TB_ERR_ARG,
                           "SOFTGPU_NVML: device=%s does not begin its group; "
                           "groups are separated by ';'",
                           value);
        if (!parse_number(value, devices - 1, &n))
            return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML: there is no device=%s among %u", value,
                           devices);
        *about = n == physical;
        return TB_OK;
    }
    for (unsigned i = 0; i < SG_NVML_SETTINGS; i++) {
        char copy[128]; /* all reasons fit */

        if (strcmp(word, settings[i].name) != 0)
            continue;
        snprintf(copy, sizeof(copy), "%s", value);
        if (strlen(value) >= sizeof(copy))
            return refuse_value(i, value, err);
        if (i == SG_NVML_THROTTLE ? !parse_reasons(copy, settings[i].most, &n)
                                  : !parse_number(value, settings[i].most, &n))
            return refuse_value(i, value, err);
        if (*about)
            out->value[i] = n;
        return TB_OK;
    }
    return refuse_name(word, err);
}

/* The text itself, or that of the file it names; "" if there is none. */
static enum tb_status read_text(char text[TEXT], struct tb_error *err)
{
    const char *env = getenv("SOFTGPU_NVML");
    FILE *f;
    size_t n;

    text[0] = '\0';
    if (!env)
        return TB_OK;
    if (env[0] != '@') {
        if (strlen(env) >= TEXT)
            return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML has more than %d characters", TEXT - 1);
        memcpy(text, env, strlen(env) + 1);
        return TB_OK;
    }
    f = fopen(env + 1, "re");
    if (!f)
        return tb_fail_sys(err, TB_ERR_ARG, errno, "SOFTGPU_NVML: cannot read '%s'", env + 1);
    n = fread(text, 1, TEXT, f);
    fclose(f);
    if (n == TEXT)
        return tb_fail(err, TB_ERR_ARG, "SOFTGPU_NVML: '%s' has more than %d characters", env + 1,
                       TEXT - 1);
    text[n] = '\0';
    return TB_OK;
}

enum tb_status sg_nvml_settings_read(unsigned physical, unsigned devices,
                                     struct sg_nvml_settings *out, struct tb_error *err)
{
    char text[TEXT], *groups, *words, *group, *word;
    struct sg_nvml_settings s;
    enum tb_status st = read_text(text, err);

    for (unsigned i = 0; i < SG_NVML_SETTINGS; i++)
        s.value[i] = settings[i].initial;
    for (group = strtok_r(text, ";\n", &groups); group && st == TB_OK;
         group = strtok_r(NULL, ";\n", &groups)) {
        bool about = true, first = true;

        for (word = strtok_r(group, " \t\r", &words); word && st == TB_OK;
             word = strtok_r(NULL, " \t\r", &words)) {
            st = apply(word, first, physical, devices, &about, &s, err);
            first = false;
        }
    }
    if (st == TB_OK)
        *out = s;
    return st;
}
