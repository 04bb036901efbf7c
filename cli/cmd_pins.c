/* pins: lists the catalogue of pins (deterministic/), or shows rows of it whole, or has them tried.
 */
#include "cli/cli.h"

#include <string.h>

#include "cli/pins.h"
#include "deterministic/catalogue.h"

struct pins {
    unsigned profile; /* enum tb_pin_profile; TB_PIN_PROFILES: none was named */
    bool json, verify;
};

#define AT(member) offsetof(struct pins, member)

static const struct tb_cli_option options[] = {
    {"--profile", "-p", TB_CLI_CHOICE, AT(profile), "observe|basic|strict|portable",
     "list what this profile holds, with its values"},
    {"--verify", NULL, TB_CLI_FLAG, AT(verify), NULL,
     "run a small job, or CMD, under the profile (default strict): what became of each pin"},
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL, "one JSON document, see docs/pins.schema.json"},
};

static const struct tb_cli_command command = {
    .name = "pins",
    .synopsis = "[options] [ID...] | --verify [options] [-- CMD...]",
    .about = "Lists the pins that twinbit knows: what can differ between two runs and what would "
             "hold it. With IDs,\n"
             "shows these rows whole. 'twinbit run --pin' puts them in; a row with a line "
             "'missing' is not built.\n"
             "With --verify a job is run under a profile: a row for each pin, requested against "
             "observed.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "a line: the pin, how it takes hold, the first profile that holds it ('alone': only "
             "where it is asked for;\n"
             "'-': it can be seen, not held), what it pins. docs/pins.md has the same catalogue.\n"
             "exit status of --verify: 0 nothing is other than asked for, 1 a pin was missed, "
             "changed or refused,\n"
             "2 error, 3 nothing could be read back.\n",
};

/* ---------------------------------------------------------------- list */

static const char *first_profile(const struct tb_pin *pin)
{
    for (int p = 0; p < TB_PIN_PROFILES; p++)
        if (tb_pin_changes(tb_pin_value(pin, (enum tb_pin_profile)p)))
            return tb_pin_profile_text((enum tb_pin_profile)p)->name;
    if (tb_pin_value(pin, TB_PIN_STRICT)) /* kept or logged there */
        return tb_pin_profile_text(TB_PIN_STRICT)->name;
    return tb_pin_alone(pin) ? "alone" : "-";
}

static void list_line(const struct tb_pin *pin, unsigned profile)
{
    if (profile < TB_PIN_PROFILES)
        printf("  %-28s %-30s %s\n", pin->id, tb_pin_value(pin, (enum tb_pin_profile)profile),
               pin->pins);
    else
        printf("  %-28s %-8s %-9s %s\n", pin->id, tb_pin_mechanism_text(pin->mechanism)->name,
               first_profile(pin), pin->pins);
}

static bool listed(const struct tb_pin *pin, unsigned profile)
{
    return profile >= TB_PIN_PROFILES || tb_pin_value(pin, (enum tb_pin_profile)profile);
}

static void list(const struct pins *o)
{
    size_t count, groups;
    const struct tb_pin *pins = tb_pins(&count);
    const struct tb_pin_text *titles = tb_pin_groups(&groups);
    bool first = true;

    for (size_t g = 0; g < groups; g++) {
        bool titled = false;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(pins[i].group, titles[g].name) != 0 || !listed(&pins[i], o->profile))
                continue;
            if (!titled)
                printf("%s%s\n", first ? "" : "\n", titles[g].text);
            titled = true;
            first = false;
            list_line(&pins[i], o->profile);
        }
    }
}

/* ---------------------------------------------------------------- rows */

static void field(const char *name, const char *text)
{
    if (text)
        printf("  %-10s %s\n", name, text);
}

static void value_field(const char *name, const char *value)
{
    const struct tb_pin_text *word = value ? tb_pin_word(value, NULL) : NULL;

    printf("  %-10s %s%s%s\n", name, value ? value : "left alone", word ? ": " : "",
           word ? word->text : "");
}

/* Calls @fn for each conflict of @pin: its own, then those that only the other pin tells of */
static void each_conflict(const struct tb_pin *pin,
                          void (*fn)(const struct tb_pin_conflict *c, void *arg), void *arg)
{
    size_t count;
    const struct tb_pin *pins = tb_pins(&count);

    for (const struct tb_pin_conflict *c = pin->conflicts; c->other; c++)
        fn(c, arg);
    for (size_t i = 0; i < count; i++)
        for (const struct tb_pin_conflict *c = pins[i].conflicts; c->other; c++) {
            if (c->job || strcmp(c->other, pin->id) != 0)
                continue;
            bool told = false;
            for (const struct tb_pin_conflict *own = pin->conflicts; own->other; own++)
                told |= !own->job && strcmp(own->other, pins[i].id) == 0;
            struct tb_pin_conflict turned = {.other = pins[i].id, .why = c->why};
            if (!told)
                fn(&turned, arg);
        }
}

static void show_conflict(const struct tb_pin_conflict *c, void *arg)
{
    (void)arg;
    printf("  %-10s %s %s: %s\n", "conflict", c->job ? "job" : "pin", c->other, c->why);
}

static void show(const struct tb_pin *pin, unsigned profile)
{
    const struct tb_pin_text *mechanism = tb_pin_mechanism_text(pin->mechanism);
    const struct tb_pin_text *reader = tb_pin_reader_text(pin->reader);

    printf("%s\n", pin->id);
    field("pins", pin->pins);
    field("sets", pin->sets);
    printf("  %-10s %s: %s\n", "mechanism", mechanism->name, mechanism->text);
    field("since", pin->since);
    for (unsigned p = 0; p < TB_PIN_PROFILES; p++)
        if (profile >= TB_PIN_PROFILES || p == profile)
            value_field(tb_pin_profile_text((enum tb_pin_profile)p)->name,
                        tb_pin_value(pin, (enum tb_pin_profile)p));
    if (tb_pin_alone(pin))
        value_field("alone", tb_pin_alone(pin));
    field("form", pin->form);
    field("read back", pin->verify);
    printf("  %-10s %s: %s\n", "reader", reader->name, reader->text);
    printf("  %-10s %s: %s\n", "cost", tb_pin_cost_name(pin->cost), pin->cost_note);
    for (const char *const *n = pin->needs; *n; n++)
        field("needs", *n);
    each_conflict(pin, show_conflict, NULL);
    field("note", pin->note);
    field("missing", pin->missing);
    field("confirmed", tb_pin_confirmed_name(pin->confirmed));
    field("doubt", pin->doubt);
    for (const char *const *s = pin->sources; *s; s++)
        field("source", *s);
}

/* ---------------------------------------------------------------- JSON */

/* "name": "text", or null */
static void member(const char *name, const char *text, const char *before)
{
    printf("%s\"%s\": ", before, name);
    if (text)
        tb_json_string(stdout, text);
    else
        fputs("null", stdout);
}

static void texts(const char *name, const struct tb_pin_text *text, size_t count, const char *key)
{
    printf(",\n \"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        member("name", text[i].name, i ? ", {" : "{");
        member(key, text[i].text, ", ");
        putchar('}');
    }
    putchar(']');
}

static void strings(const char *name, const char *const *item)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; item[i]; i++) {
        fputs(i ? ", " : "", stdout);
        tb_json_string(stdout, item[i]);
    }
    putchar(']');
}

static void json_conflict(const struct tb_pin_conflict *c, void *arg)
{
    bool *first = arg;

    member("with", c->job ? "job" : "pin", *first ? "{" : ", {");
    member("other", c->other, ", ");
    member("why", c->why, ", ");
    putchar('}');
    *first = false;
}

static void json_pin(const struct tb_pin *pin)
{
    bool first = true;

    member("id", pin->id, "{");
    member("group", pin->group, ", ");
    member("pins", pin->pins, ", ");
    member("mechanism", tb_pin_mechanism_text(pin->mechanism)->name, ", ");
    member("sets", pin->sets, ", ");
    member("since", pin->since, ", ");
    fputs(", \"values\": {", stdout);
    for (int p = 0; p < TB_PIN_PROFILES; p++)
        member(tb_pin_profile_text((enum tb_pin_profile)p)->name,
               tb_pin_value(pin, (enum tb_pin_profile)p), p ? ", " : "");
    putchar('}');
    member("alone", tb_pin_alone(pin), ", ");
    member("form", pin->form, ", ");
    member("reader", tb_pin_reader_text(pin->reader)->name, ", ");
    member("verify", pin->verify, ", ");
    member("class", tb_pin_cost_name(pin->cost), ", \"cost\": {");
    member("why", pin->cost_note, ", ");
    putchar('}');
    strings("needs", pin->needs);
    fputs(", \"conflicts\": [", stdout);
    each_conflict(pin, json_conflict, &first);
    putchar(']');
    member("note", pin->note, ", ");
    member("missing", pin->missing, ", ");
    member("confirmed", tb_pin_confirmed_name(pin->confirmed), ", ");
    member("doubt", pin->doubt, ", ");
    strings("sources", pin->sources);
    putchar('}');
}

static void json_head(unsigned profile)
{
    size_t count;

    fputs("{\"catalogue\": \"twinbit-pins\", \"version\": 1", stdout);
    member("profile",
           profile < TB_PIN_PROFILES ? tb_pin_profile_text((enum tb_pin_profile)profile)->name
                                     : NULL,
           ", ");
    texts("profiles", tb_pin_profile_text(TB_PIN_OBSERVE), TB_PIN_PROFILES, "about");
    texts("mechanisms", tb_pin_mechanism_text(TB_PIN_ENV), TB_PIN_MECHANISMS, "about");
    texts("readers", tb_pin_reader_text(TB_PIN_READER_PARENT), TB_PIN_READERS, "about");
    const struct tb_pin_text *text = tb_pin_words(&count);
    texts("words", text, count, "about");
    text = tb_pin_groups(&count);
    texts("groups", text, count, "title");
}

/* ---------------------------------------------------------------- command */

static int unknown(const char *id)
{
    const struct tb_pin *near[4];
    size_t n = tb_pin_near(id, near, TB_ARRAY_LEN(near));
    char text[256] = "";

    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%s%s",
                       i ? ", " : ": near it: ", near[i]->id);
    }
    tb_log("pins: unknown pin '%s'%s ('twinbit pins' lists them)", id, text);
    return TB_EXIT_ERROR;
}

static void print_json(const struct pins *o, const struct tb_cli_rest *ids)
{
    size_t count, printed = 0;
    const struct tb_pin *pins = tb_pins(&count);

    json_head(o->profile);
    fputs(",\n \"pins\": [", stdout);
    if (ids->count > 0)
        count = (size_t)ids->count;
    for (size_t i = 0; i < count; i++) {
        const struct tb_pin *pin = ids->count > 0 ? tb_pin_find(ids->item[i]) : &pins[i];
        if (ids->count == 0 && !listed(pin, o->profile))
            continue;
        fputs(printed++ ? ",\n  " : "\n  ", stdout);
        json_pin(pin);
    }
    puts("\n]}");
}

int tb_cmd_pins(int argc, char **argv)
{
    struct pins o = {.profile = TB_PIN_PROFILES};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &o, &rest, &status))
        return status;
    if (o.verify)
        return tb_pins_verify(o.profile < TB_PIN_PROFILES ? (enum tb_pin_profile)o.profile
                                                          : TB_PIN_STRICT,
                              o.json, rest.count > 0 ? rest.item : NULL);
    for (int i = 0; i < rest.count; i++)
        if (!tb_pin_find(rest.item[i]))
            return unknown(rest.item[i]);
    if (o.json)
        print_json(&o, &rest);
    else if (rest.count == 0)
        list(&o);
    for (int i = 0; i < rest.count && !o.json; i++) {
        fputs(i ? "\n" : "", stdout);
        show(tb_pin_find(rest.item[i]), o.profile);
    }
    return tb_cli_flush(TB_EXIT_OK);
}
