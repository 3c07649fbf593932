#include "command.hpp"

#include "shedlock/shedlock.hpp"
#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace shedlock::tool {

namespace {

constexpr auto grace = std::chrono::seconds{5}; // between SIGTERM and SIGKILL

// To be handed on to the command. Not in a pipeline, whose other members need it as well: "... | less".
bool we_have_terminal()
{
    return ::isatty(STDOUT_FILENO) && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

std::vector<char *> pointers(std::vector<std::string> &words)
{
    std::vector<char *> list;
    for (auto &word : words)
        list.push_back(word.data());
    return list;
}

bool is_among(std::string_view variable, std::vector<std::string> const &variables)
{
    auto const name_of = [](std::string_view one) { return one.substr(0, one.find('=')); };
    return std::any_of(variables.begin(), variables.end(),
                       [&](auto const &one) { return name_of(one) == name_of(variable); });
}

// 0, or the error that exec would have.
int why_not(std::string const &file)
{
    struct stat about {};
    if (::stat(file.c_str(), &about) != 0)
        return errno;
    if (S_ISDIR(about.st_mode))
        return EACCES;
    return ::eaccess(file.c_str(), X_OK) == 0 ? 0 : errno;
}

int why_not_in_path(std::string const &name)
{
    auto const *const path = std::getenv("PATH");
    int failure = ENOENT;
    for (std::string_view rest = path ? path : "/bin:/usr/bin";;) {
        auto const end = std::min(rest.find(':'), rest.size());
        auto const here = why_not(end == 0 ? name : std::string{rest.substr(0, end)} + '/' + name);
        if (here == 0)
            return 0;
        if (here == EACCES) // there may be a better one
            failure = here;
        if (end == rest.size())
            return failure;
        rest.remove_prefix(end + 1);
    }
}

int cannot_run(std::string const &program, int failure)
{
    say("cannot run \"" + program + "\": " + std::strerror(failure));
    return failure == ENOENT ? 127 : 126;
}

// In the new process, of which only this thread exists: nothing here may take a lock or memory.
[[noreturn]] void become(std::vector<char *> const &words, std::vector<char *> const &environment, events const &events,
                         bool take_terminal, pid_t parent, int report)
{
    ::setpgid(0, 0);
    if (take_terminal)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    // Not SIGTERM: nobody would be left to see to it that the command ends before its lease does.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        ::_exit(125);
    events.restore();
    ::execvpe(words.front(), words.data(), environment.data());
    int const failure = errno;
    [[maybe_unused]] auto const written = ::write(report, &failure, sizeof failure);
    ::_exit(125);
}

} // namespace

int look_for(std::string const &program)
{
    bool const is_path = program.empty() || program.find('/') != program.npos;
    int const failure = is_path ? why_not(program) : why_not_in_path(program);
    return failure == 0 ? 0 : cannot_run(program, failure);
}

command::command(events &events, std::vector<std::string> words, std::vector<std::string> variables)
    : events_{events}, has_terminal_{we_have_terminal()}
{
    auto arguments = pointers(words);
    arguments.push_back(nullptr);
    std::vector<char *> environment;
    for (auto &variable : variables)
        if (variable.find('=') != variable.npos)
            environment.push_back(variable.data());
    for (char **variable = ::environ; *variable; ++variable)
        if (!is_among(*variable, variables))
            environment.push_back(*variable);
    environment.push_back(nullptr);

    int report[2]; // of an exec that failed; closed by one that succeeded
    if (::pipe2(report, O_CLOEXEC) != 0)
        throw std::system_error{errno, std::generic_category(), "pipe"};
    auto const parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0)
        throw std::system_error{errno, std::generic_category(), "cannot start a process"};
    if (pid_ == 0)
        become(arguments, environment, events, has_terminal_, parent, report[1]);
    ::setpgid(pid_, pid_); // here, too: whoever comes first
    ::close(report[1]);

    int failure = 0;
    while (::read(report[0], &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    ::close(report[0]);
    if (failure == 0)
        return;
    ::waitpid(pid_, nullptr, 0);
    end(cannot_run(words.front(), failure));
}

void command::signal_group(int number) const noexcept
{
    ::kill(-pid_, number);
    ::kill(-pid_, SIGCONT); // one that is stopped would not see it
}

int command::wait(std::stop_token const &stop)
{
    std::stop_callback const when_stopped{stop, [this] { events_.call(); }};
    std::optional<clock::time_point> kill_at;
    while (pid_ != 0) {
        if (stop.stop_requested() && !kill_at) {
            signal_group(SIGTERM);
            kill_at = clock::now() + grace;
        }
        if (kill_at && clock::now() >= *kill_at) {
            signal_group(SIGKILL);
            kill_at = clock::time_point::max();
        }
        auto const number = events_.wait(kill_at);
        if (number == SIGCHLD)
            reap(stop.stop_requested());
        else if (number == SIGTSTP)
            stop_with_it();
        else if (number != 0)
            signal_group(number);
    }
    return exit_status_;
}

// Every child is waited for: as process 1 of a container we inherit the orphans of others.
void command::reap(bool stopping)
{
    siginfo_t next{};
    while (::waitid(P_ALL, 0, &next, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 && next.si_pid != 0) {
        bool const is_ours = next.si_pid == pid_;
        bool const is_over = next.si_code != CLD_STOPPED;
        // What is left of the group, as long as the number of the group is certainly its own.
        if (is_ours && is_over && stopping)
            signal_group(SIGKILL);
        int status = 0;
        ::waitpid(next.si_pid, &status, WUNTRACED | WNOHANG);
        if (is_ours && is_over) {
            end(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        } else if (is_ours && next.si_status != SIGSTOP) { // SIGSTOP is somebody's who will also continue it
            stop_with_it();
        }
        next = {};
    }
}

void command::end(int exit_status) noexcept
{
    pid_ = 0;
    exit_status_ = exit_status;
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
}

// Ctrl-Z reaches the command or us, whoever has the terminal; one that reads the terminal in the background is stopped,
// too. The shell waits for us, and a lease must not be extended for good for one who does nothing. So we stop and go on
// together.
void command::stop_with_it() noexcept
{
    ::kill(-pid_, SIGSTOP);
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    ::raise(SIGSTOP);
    has_terminal_ = we_have_terminal(); // fg or bg
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, pid_);
    ::kill(-pid_, SIGCONT);
}

} // namespace shedlock::tool
