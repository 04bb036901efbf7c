/* The job's own LD_PRELOAD: the job looks for this symbol. */
int job_preload_marker(void);
int job_preload_marker(void)
{
    return 42;
}
