// Preloaded: a process that executes a program by execvpe is stopped before that, as by Ctrl-Z.
#include <csignal>
#include <unistd.h>

extern "C" int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    ::raise(SIGTSTP);
    return ::execve(file, arguments, environment);
}
