/* Three objects are written to temporary files; an archive lists them by the names of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    unsigned checksum = 0;

    for (int object = 0; object < 3; object++) {
        char name[] = "halide-object-XXXXXX";
        int fd = mkstemp(name);

        if (fd < 0 || write(fd, "code", 4) != 4 || close(fd) != 0 || unlink(name) != 0)
            return 1;
        printf("member %s\n", name);
        for (size_t i = 0; i < strlen(name); i++)
            checksum = checksum * 31 + (unsigned char)name[i];
    }
    printf("checksum %08x\n", checksum);
    return 0;
}
