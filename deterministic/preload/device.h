/* device - descriptors of /dev/urandom and /dev/random, and reads of them. */
#ifndef TB_DETERMINISTIC_PRELOAD_DEVICE_H
#define TB_DETERMINISTIC_PRELOAD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** tb_pins_look_for_devices - those that this image has inherited among its first descriptors */
void tb_pins_look_for_devices(void);

/** tb_pins_is_device - is @fd one of the devices, known and still open? Keeps errno */
bool tb_pins_is_device(int fd);

/** tb_pins_device_opened - @fd was opened by @pc: is it a device that is to be answered? */
bool tb_pins_device_opened(int fd, const void *pc);

/** tb_pins_device_named - is @path one of the devices, by whatever name? */
bool tb_pins_device_named(const char *path);

/** tb_pins_opened - what is to be done where @path was opened for reading by @pc as @fd; returns it
 */
int tb_pins_opened(int fd, const char *path, int flags, const void *pc);

/** tb_pins_uuid_opened - puts an answer in place of @fd, if @path is the kernel's file of UUIDs;
 * @flags: O_CLOEXEC or 0 */
void tb_pins_uuid_opened(int fd, const char *path, int flags, const void *pc);

/** tb_pins_device_read - as read(2), for the caller @pc; false: pass it on */
bool tb_pins_device_read(int fd, void *buf, size_t n, const void *pc, ssize_t *result);

void tb_pins_device_mark(int fd);

#endif
