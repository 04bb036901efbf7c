/* Stands in for a cryptographic library: its file is named libcrypto.so.3, so its draws stay real.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) void crypto_draw(uint8_t *b, int way);
static volatile long result; /* used, so that no call becomes a jump out of this library */

void crypto_draw(uint8_t *b, int way)
{
    int fd;

    memset(b, 0, 16);
    if (way == 0)
        result = getrandom(b, 16, 0);
    else if (way == 1)
        result = getentropy(b, 16);
    else if (way == 2)
        result = syscall(SYS_getrandom, b, 16, 0);
    else if (way == 3 && (fd = open("/dev/urandom", O_RDONLY)) >= 0) {
        result = read(fd, b, 16);
        close(fd);
    } else if (way == 4) {
        FILE *f = fopen("/dev/urandom", "r");
        result = (long)fread(b, 1, 16, f);
        fclose(f);
    }
}
