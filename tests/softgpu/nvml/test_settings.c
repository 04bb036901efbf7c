/* What SOFTGPU_NVML may be, and what is said when it is something else. */
#include "softgpu/nvml/settings.h"
#include "tests/softgpu/nvml/nvml_test.h"

static struct sg_nvml_settings s;
static struct tb_error err;

static enum tb_status read_as(const char *text, unsigned physical)
{
    memset(&err, 0, sizeof(err));
    setenv("SOFTGPU_NVML", text, 1);
    return sg_nvml_settings_read(physical, 2, &s, &err);
}

static void refused(const char *text, const char *why)
{
    assert_int_equal(read_as(text, 0), TB_ERR_ARG);
    if (!strstr(err.text, why))
        fail_msg("'%s' gave '%s'", text, err.text);
}

static void test_settings__last_word_wins(void **state)
{
    (void)state;
    assert_int_equal(read_as("temperature=50;device=1 temperature=60 xid=0x1f", 1), TB_OK);
    assert_int_equal(s.value[SG_NVML_TEMPERATURE], 60);
    assert_int_equal(s.value[SG_NVML_XID], 31);
    assert_int_equal(s.value[SG_NVML_UTILIZATION], SG_NVML_UNSET);
    assert_int_equal(read_as("temperature=50;device=1 temperature=60", 0), TB_OK);
    assert_int_equal(s.value[SG_NVML_TEMPERATURE], 50);
    assert_int_equal(read_as(" ; ;", 0), TB_OK);
    assert_int_equal(read_as("throttle=idle+display", 0), TB_OK);
    assert_int_equal(s.value[SG_NVML_THROTTLE], 0x101);
    assert_int_equal(read_as("throttle=idle+app_clocks+sw_power+hw_slowdown+sync_boost+sw_thermal+"
                             "hw_thermal+hw_power_brake+display",
                             0),
                     TB_OK);
    assert_int_equal(s.value[SG_NVML_THROTTLE], 0x1ff);
}

static void test_settings__mistakes_are_named(void **state)
{
    (void)state;
    refused("temperature", "'temperature' is not name=value");
    refused("temperature=hot", "temperature='hot' is not a number from 0 to 200");
    refused("temperature=201", "is not a number from 0 to 200");
    refused("temperature=-1", "is not a number");
    refused("temp=1", "there is no 'temp'; it may be device, temperature");
    refused("device=2 xid=1", "there is no device=2 among 2");
    refused("xid=1 device=1", "does not begin its group");
    refused("throttle=hot", "none of idle, app_clocks");
    refused("throttle=", "none of idle");
    refused("@/nowhere/at/all", "cannot read '/nowhere/at/all'");
    refused("device=1 temp=1", "there is no 'temp'"); /* groups about others are read too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings__last_word_wins),
        cmocka_unit_test(test_settings__mistakes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
