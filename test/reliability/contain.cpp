// contain COMMAND [ARG...]: runs the command and leaves no process behind, neither when the command ends nor when INT,
// TERM or HUP ends us. Servers and their managers make themselves daemons, in sessions of their own; here a process
// that loses its parent becomes our child, so that all of them can be found. The exit status is the command's.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

volatile std::sig_atomic_t ended_by = 0;

std::vector<pid_t> children_of(pid_t process)
{
    std::vector<pid_t> found;
    const auto folder = "/proc/" + std::to_string(process) + "/task";
    std::error_code gone;
    for (auto thread = std::filesystem::directory_iterator{folder, gone}; !gone && thread != end(thread);
         thread.increment(gone)) {
        std::ifstream in{thread->path() / "children"};
        for (pid_t child = 0; in >> child;)
            found.push_back(child);
    }
    return found;
}

std::vector<pid_t> descendants()
{
    auto found = children_of(::getpid());
    for (std::size_t i = 0; i < found.size(); ++i)
        for (const auto child : children_of(found[i]))
            found.push_back(child);
    return found;
}

// Reaps all processes that have ended; if the command is one of them, stores its status.
void reap(pid_t command, int &status)
{
    int one = 0;
    for (pid_t process = 0; (process = ::waitpid(-1, &one, WNOHANG)) > 0;)
        if (process == command)
            status = one;
}

// First TERM, then QUIT, which ends servers at once, then KILL, which no process can ignore.
// CONT is for processes that are stopped.
void stop_all(pid_t command, int &status)
{
    std::map<pid_t, int> told;
    const auto begin = std::chrono::steady_clock::now();
    for (auto left = descendants(); !left.empty(); left = descendants()) {
        const auto since = std::chrono::steady_clock::now() - begin;
        const int signal = since < 3s ? SIGTERM : since < 10s ? SIGQUIT : SIGKILL;
        for (const auto process : left)
            if (std::exchange(told[process], signal) != signal) {
                ::kill(process, signal);
                ::kill(process, SIGCONT);
            }
        ::usleep(20'000);
        reap(command, status);
    }
}

} // namespace

int main(int count, char **words)
{
    if (count < 2 || ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        std::cerr << "contain COMMAND [ARG...]" << std::endl;
        return 2;
    }
    for (const auto signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, [](int which) { ended_by = which; });
    const auto command = ::fork();
    if (command == 0) {
        ::execvp(words[1], words + 1);
        std::cerr << words[1] << ": cannot be run" << std::endl;
        ::_exit(127);
    }
    int status = -1;
    while (command > 0 && status == -1 && !ended_by) {
        ::usleep(20'000);
        reap(command, status);
    }
    stop_all(command, status);
    if (const int signal = ended_by) {
        std::signal(signal, SIG_DFL);
        ::raise(signal);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
