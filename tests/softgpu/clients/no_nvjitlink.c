/* A libnvJitLink.so.13 without functions: cuda-core takes the driver's linker instead. */
extern int no_nvjitlink;
int no_nvjitlink = 1;
