/* The tables that gen_pins.py writes; private to deterministic/. Each count is that of its table.
 */
#ifndef TB_DETERMINISTIC_CATALOGUE_INTERNAL_H
#define TB_DETERMINISTIC_CATALOGUE_INTERNAL_H

#include "deterministic/catalogue.h"

extern const struct tb_pin tb_pins_table[];
extern const size_t tb_pins_table_count;
extern const struct tb_pin_text tb_pin_words_table[];
extern const size_t tb_pin_words_table_count;
extern const struct tb_pin_text tb_pin_groups_table[];
extern const size_t tb_pin_groups_table_count;

/* by the values of their enums */
extern const struct tb_pin_text tb_pin_profiles[];
extern const size_t tb_pin_profiles_count;
extern const struct tb_pin_text tb_pin_mechanisms[];
extern const size_t tb_pin_mechanisms_count;
extern const struct tb_pin_text tb_pin_readers[];
extern const size_t tb_pin_readers_count;

#endif
