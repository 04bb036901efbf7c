#include "cli/pins.h"

#include <stddef.h>
#include <string.h>

bool tb_pin_row_split(char *line, char *field[TB_PIN_ROW_FIELDS])
{
    for (size_t i = 0; i < TB_PIN_ROW_FIELDS; i++) {
        field[i] = line;
        line = line ? strchr(line, '\t') : NULL;
        if (line)
            *line++ = 0;
        else if (i + 1 < TB_PIN_ROW_FIELDS)
            return false;
    }
    return true;
}
