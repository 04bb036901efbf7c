/* Stands for a runtime library that program.c is linked to; nothing of it is called, because
 * softgpu's takes its place. */
int runtime(void);

__attribute__((visibility("default"))) int runtime(void)
{
    return 0;
}
