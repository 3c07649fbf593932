/* Preloaded into a server, this makes each flush take BENCH_FLUSH_MICROSECONDS longer, as on a slower disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int file)
{
    const char *microseconds = getenv("BENCH_FLUSH_MICROSECONDS");
    long delay = microseconds ? atol(microseconds) : 0;
    struct timespec pause = {delay / 1000000, delay % 1000000 * 1000};
    nanosleep(&pause, NULL);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}

int fdatasync(int file) { return slowly("fdatasync", file); }
int fsync(int file) { return slowly("fsync", file); }
