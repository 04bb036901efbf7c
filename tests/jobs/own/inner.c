int job_inner_value(void);
int job_inner_value(void)
{
    return 7;
}
