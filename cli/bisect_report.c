/* bisect-pins: what came of it, as text and as JSON. */
#include "cli/bisect_pins.h"

#include <stdlib.h>
#include <string.h>

#include "deterministic/odds.h"

static const struct tb_pin_choice *choice_of(const struct tb_bp *b, size_t item)
{
    return &b->all->choice[b->item[item]];
}

static size_t found(const struct tb_bp *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->items; i++)
        n += b->found[i];
    return n;
}

/* Is the value the one that the pin gets when it is named without one? */
static bool usual(const struct tb_bp *b, const struct tb_pin_choice *c)
{
    const char *alone = tb_pin_alone(c->pin), *argument = "";
    char seed[16];

    if (!alone)
        return false;
    if (strcmp(alone, c->value) == 0)
        return true;
    (void)tb_pin_word(alone, &argument);
    if (c->add)
        return strcmp(argument, c->value) == 0;
    (void)snprintf(seed, sizeof(seed), "%u", tb_pin_seed(b->pin_seed, c->pin->id));
    return strcmp(alone, "@seed") == 0 && strcmp(seed, c->value) == 0;
}

/* The options of `twinbit run` that put these pins in; a file for values with commas */
static char *option_text(const struct tb_bp *b)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    const char *before = "--pin ";

    for (size_t i = 0; f && i < b->items; i++) {
        const struct tb_pin_choice *c = choice_of(b, i);
        if (!b->found[i])
            continue;
        (void)fprintf(f, "%s%s", before, c->pin->id);
        if (!usual(b, c))
            (void)fprintf(f, "=%s%s", c->add ? "@add " : "", c->value);
        before = ",";
    }
    if (f && b->pin_seed)
        (void)fprintf(f, " --pin-seed %llu", (unsigned long long)b->pin_seed);
    if (f && b->force_pins)
        (void)fputs(" --force-pins", f);
    if (f && fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

static double missed(const struct tb_bp *b)
{
    return tb_odds_equal(tb_odds_share(b->commonest, b->without), b->equal);
}

/* ---------------------------------------------------------------- text */

static void print_cost(const struct tb_bp_cost *c)
{
    char text[48] = "-";

    if (c->known)
        (void)snprintf(text, sizeof(text), "%.2fx (%.2f..%.2f)", c->ratio, c->low, c->high);
    printf(" %-22s", text);
}

static void print_pins(const struct tb_bp *b)
{
    printf("  %-28s %-18s %-22s %s\n", "pin", "value", "wall time", "pins");
    for (size_t i = 0; i < b->items; i++) {
        const struct tb_pin_choice *c = choice_of(b, i);
        if (!b->found[i])
            continue;
        printf("  %-28s %-18s", c->pin->id, c->value);
        print_cost(&b->cost[i]);
        printf(" %s\n", c->pin->pins);
    }
    if (found(b) > 1) {
        printf("  %-28s %-18s", "together", "");
        print_cost(&b->together);
        putchar('\n');
    }
    if (b->together.known)
        puts("  wall time: over that without pins, both recorded at step ends, run in turn: median "
             "(least..largest)");
}

static void print_found(const struct tb_bp *b)
{
    size_t n = found(b);
    char *option = option_text(b);
    bool comma = false;

    printf("found: %zu of %zu pins make%s the runs the same%s\n", n, b->items, n == 1 ? "s" : "",
           b->smallest && n > 1 ? "; each of them is needed" : "");
    print_pins(b);
    for (size_t i = 0; i < b->items; i++)
        comma |= b->found[i] && strchr(choice_of(b, i)->value, ',') && !usual(b, choice_of(b, i));
    printf("use: twinbit run %s -- CMD\n", option ? option : "");
    if (comma)
        puts("a value has a comma: such a pin goes into a file, as ID = VALUE");
    free(option);
    if (!b->smallest)
        puts("it was stopped before fewer could be tried: not all of them may be needed");
    else if (!b->confirmed)
        puts("it was stopped before the set was run once more");
}

static void print_odds(const struct tb_bp *b)
{
    double share = tb_odds_share(b->commonest, b->without);

    printf(
        "confidence: with a set %llu runs must be equal; one that does not help passes that with "
        "a chance of %.2g %% at most%s\n",
        (unsigned long long)b->equal, 100 * missed(b),
        b->confirmed ? "; the set that was found passed twice" : "");
    if (b->equal_is_less)
        printf("--max-runs %llu has no room for more; %g %% takes %llu runs each\n",
               (unsigned long long)b->max_runs, 100 * TB_BP_MISSED,
               (unsigned long long)tb_odds_runs(share, TB_BP_MISSED));
}

static void print_without(const struct tb_bp *b)
{
    if (b->without == 0)
        return;
    printf("without pins: %u of %u runs differ from the commonest result%s%s\n",
           b->without - b->commonest, b->without, b->difference_without[0] ? "; first: " : "",
           b->difference_without);
}

static void print_dropped(const struct tb_bp *b)
{
    for (size_t i = 0; i < b->drops; i++) {
        const struct tb_bp_dropped *d = &b->dropped[i];
        printf("pin %s makes the job fail (status %d: '%.160s'): %s%s\n", d->pin->id, d->status,
               d->line, d->instead ? d->instead : "it is left out",
               d->instead ? " is taken instead" : "");
    }
}

static void print_none(const struct tb_bp *b)
{
    const char *comma = " ";

    if (b->difference_all[0])
        printf("none: runs differ with all %zu pins, too\n", b->items);
    else
        puts("none: the job fails with the pins that were tried");
    print_without(b);
    if (b->difference_all[0])
        printf("with all pins: %s\n", b->difference_all);
    for (size_t i = 0; i < b->hints; i++)
        printf("pin %s\n", b->hint[i]);
    if (b->unbuilt == 0)
        return;
    printf("not tried, because this version does not set them:");
    for (size_t i = 0; i < b->all->count; i++)
        if (b->all->choice[i].request == TB_PIN_UNBUILT) {
            printf("%s%s", comma, b->all->choice[i].pin->id);
            comma = ", ";
        }
    putchar('\n');
}

static void print_repeats(const struct tb_bp *b)
{
    if (b->status != 0 && !b->any_status)
        printf(
            "fails each time, with status %d, and repeats itself so without pins: %u runs are the "
            "same\n",
            b->status, b->without);
    else
        printf("repeats itself without pins: %u runs are the same\n", b->without);
    printf(
        "confidence: had %.2g %% of its runs or more differed, that would have been seen (95 %%); "
        "--repeats N looks longer\n",
        100 * tb_odds_excluded(b->without));
}

void tb_bp_print(const struct tb_bp *b)
{
    if (b->verdict == TB_BP_REPEATS) {
        print_repeats(b);
    } else if (b->verdict == TB_BP_FOUND) {
        print_found(b);
        print_without(b);
        print_odds(b);
    } else if (b->verdict == TB_BP_NONE) {
        print_none(b);
    } else if (b->nothing) {
        puts("not known: nothing was recorded of the job that can be compared; --compare output "
             "takes what it prints");
    } else {
        puts("not known: it was stopped before runs without pins and runs with all of them were "
             "compared");
        print_without(b);
    }
    if (b->status != 0 && !b->any_status)
        printf("without pins the job ends with status %d%s%s\n", b->status,
               b->line_without[0] ? ": " : "", b->line_without);
    print_dropped(b);
    if (b->at_limit)
        printf("--max-runs %llu is reached\n", (unsigned long long)b->max_runs);
    if (b->uncovered[0] && !b->by_output)
        printf("not all was covered, equal means what was: %s\n", b->uncovered);
    printf("%u runs, compared by %s\n", b->runs,
           !b->decided     ? "nothing yet"
           : !b->by_output ? "what was recorded, and status"
                           : "what they print, and status");
}

/* ---------------------------------------------------------------- JSON */

static void member(const char *name, const char *text, const char *before)
{
    printf("%s\"%s\": ", before, name);
    if (text && *text)
        tb_json_string(stdout, text);
    else
        fputs("null", stdout);
}

static void json_cost(const char *name, const struct tb_bp_cost *c)
{
    if (c->known)
        printf(", \"%s\": {\"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f}", name, c->ratio, c->low,
               c->high);
    else
        printf(", \"%s\": null", name);
}

static void json_found(const struct tb_bp *b)
{
    char *option = b->verdict == TB_BP_FOUND ? option_text(b) : NULL;
    const char *before = "{";

    fputs(",\n \"pins\": [", stdout);
    for (size_t i = 0; b->verdict == TB_BP_FOUND && i < b->items; i++) {
        if (!b->found[i])
            continue;
        member("pin", choice_of(b, i)->pin->id, before);
        member("value", choice_of(b, i)->value, ", ");
        json_cost("wall", &b->cost[i]);
        putchar('}');
        before = ", {";
    }
    putchar(']');
    member("option", option, ", ");
    json_cost("together", &b->together);
    printf(", \"smallest\": %s, \"confirmed\": %s", b->smallest ? "true" : "false",
           b->confirmed ? "true" : "false");
    free(option);
}

static void json_dropped(const struct tb_bp *b)
{
    fputs(",\n \"unusable\": [", stdout);
    for (size_t i = 0; i < b->drops; i++) {
        member("pin", b->dropped[i].pin->id, i ? ", {" : "{");
        member("instead", b->dropped[i].instead, ", ");
        printf(", \"status\": %d", b->dropped[i].status);
        member("line", b->dropped[i].line, ", ");
        putchar('}');
    }
    fputs("], \"not_held\": [", stdout);
    for (size_t i = 0; i < b->hints; i++) {
        fputs(i ? ", " : "", stdout);
        tb_json_string(stdout, b->hint[i]);
    }
    fputs("], \"unbuilt\": [", stdout);
    const char *comma = "";
    for (size_t i = 0; i < b->all->count; i++)
        if (b->all->choice[i].request == TB_PIN_UNBUILT) {
            fputs(comma, stdout);
            tb_json_string(stdout, b->all->choice[i].pin->id);
            comma = ", ";
        }
    putchar(']');
}

void tb_bp_json(const struct tb_bp *b, int status)
{
    static const char *const verdicts[] = {"unknown", "repeats", "found", "none"};

    printf("{\"report\": \"twinbit-bisect-pins\", \"version\": 1, \"verdict\": \"%s\", "
           "\"status\": %d, \"runs\": %u, \"at_limit\": %s",
           verdicts[b->verdict], status, b->runs, b->at_limit ? "true" : "false");
    member("compared", !b->decided ? NULL : b->by_output ? "output" : "trace", ", ");
    member("not_covered", b->by_output ? NULL : b->uncovered, ", ");
    printf(",\n \"tried\": %zu, \"without\": {\"runs\": %u, \"commonest\": %u", b->items,
           b->without, b->commonest);
    if (b->without > 0 && !b->any_status)
        printf(", \"status\": %d", b->status);
    else
        fputs(", \"status\": null", stdout);
    member("difference", b->difference_without, ", ");
    fputs("}", stdout);
    member("difference", b->verdict == TB_BP_NONE ? b->difference_all : NULL, ", ");
    if (b->verdict == TB_BP_REPEATS)
        printf(",\n \"confidence\": {\"level\": %g, \"equal\": %u, \"excluded\": %.4f}",
               TB_ODDS_CONFIDENCE, b->without, tb_odds_excluded(b->without));
    else if (b->equal)
        printf(",\n \"confidence\": {\"level\": %g, \"equal\": %llu, \"missed\": %.4g}",
               TB_ODDS_CONFIDENCE, (unsigned long long)b->equal, missed(b));
    else
        fputs(",\n \"confidence\": null", stdout);
    json_found(b);
    json_dropped(b);
    puts("}");
}
