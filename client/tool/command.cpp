#include "command.hpp"

#include "dsn_command.hpp"
#include "reporter.hpp"
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

// Whether we have the terminal, and may hand it to the command. In a pipeline we may not, because its other programs
// need the terminal: "... | less".
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

bool is_among(std::string_view variable, const std::vector<std::string> &variables)
{
    const auto name_of = [](std::string_view one) { return one.substr(0, one.find('=')); };
    return std::any_of(variables.begin(), variables.end(),
                       [&](const auto &one) { return name_of(one) == name_of(variable); });
}

// Returns 0, or the errno with which an exec would probably fail.
int exec_error(const std::string &file)
{
    struct stat about {};
    if (::stat(file.c_str(), &about) != 0)
        return errno;
    if (S_ISDIR(about.st_mode))
        return EACCES;
    return ::eaccess(file.c_str(), X_OK) == 0 ? 0 : errno;
}

int exec_error_in_path(const std::string &name)
{
    const auto *const path = std::getenv("PATH");
    int failure = ENOENT;
    for (std::string_view rest = path ? path : "/bin:/usr/bin";;) {
        const auto end = std::min(rest.find(':'), rest.size());
        const auto here = exec_error(end == 0 ? name : std::string{rest.substr(0, end)} + '/' + name);
        if (here == 0)
            return 0;
        if (here == EACCES) // a later directory may have one that can be run
            failure = here;
        if (end == rest.size())
            return failure;
        rest.remove_prefix(end + 1);
    }
}

std::string why_not_run(const std::string &program, int failure)
{
    return "cannot run \"" + program + "\": " + std::strerror(failure);
}

// What a shell returns.
int status_if_not_run(int failure)
{
    return failure == ENOENT ? 127 : 126;
}

std::string failure_of(int wait_status)
{
    if (const int number = WTERMSIG(wait_status); WIFSIGNALED(wait_status))
        return "signal " + std::to_string(number) + " (" + ::strsignal(number) + ')';
    const int status = WEXITSTATUS(wait_status);
    return status == 0 ? "" : "exit status " + std::to_string(status);
}

// Runs in the new process. A mutex that another thread had locked at the fork, such as malloc's, stays locked here for
// ever. So nothing here may lock a mutex or allocate memory.
[[noreturn]] void become(const std::vector<char *> &words, const std::vector<char *> &environment, const events &events,
                         bool take_terminal, pid_t parent, int report)
{
    ::setpgid(0, 0);
    if (take_terminal)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    // Not SIGTERM, because no process would be left to ensure that the command ends before its lease does.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        ::_exit(125);
    events.restore();
    ::execvpe(words.front(), words.data(), environment.data());
    const int failure = errno;
    [[maybe_unused]] const auto written = ::write(report, &failure, sizeof failure);
    ::_exit(125);
}

} // namespace

int look_for(const std::string &program)
{
    const bool is_path = program.empty() || program.find('/') != program.npos;
    const int failure = is_path ? exec_error(program) : exec_error_in_path(program);
    if (failure == 0)
        return 0;
    say(why_not_run(program, failure));
    return status_if_not_run(failure);
}

command::command(events &events, std::vector<std::string> words, std::vector<std::string> variables)
    : events_{events}, program_{words.front()}, has_terminal_{we_have_terminal()}
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

    int report[2];
    if (::pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0)
        throw std::system_error{errno, std::generic_category(), "cannot create a pipe"};
    report_ = report[0];
    const auto parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0)
        become(arguments, environment, events, has_terminal_, parent, report[1]);
    ::close(report[1]);
    if (pid_ < 0) {
        ::close(report_);
        throw std::system_error{errno, std::generic_category(), "cannot start a process"};
    }
    ::setpgid(pid_, pid_); // in both processes, because either may be first
}

command::~command()
{
    ::close(report_);
}

void command::signal_group(int number) const noexcept
{
    ::kill(-pid_, number);
    ::kill(-pid_, SIGCONT); // a stopped process would not notice the signal
}

int command::wait(const std::stop_token &stop)
{
    const std::stop_callback when_stopped{stop, [this] { events_.call(); }};
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
        const auto number = events_.wait(kill_at);
        if (number == SIGCHLD)
            reap(stop.stop_requested());
        else if (number == SIGTSTP)
            stop_with_it(::getpid());
        else if (number != 0) {
            signal_group(passed_on_ = number);
            was_typed_ = events_.was_typed();
        }
    }
    return exit_status_;
}

// Reaps every child that has ended, because as process 1 of a container we inherit orphans.
void command::reap(bool stopping)
{
    siginfo_t next{};
    while (::waitid(P_ALL, 0, &next, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 && next.si_pid != 0) {
        const bool is_ours = next.si_pid == pid_;
        // Kills what is left of the group. Before waitpid its number cannot yet belong to another group.
        if (is_ours && next.si_code != CLD_STOPPED && stopping)
            signal_group(SIGKILL);
        const auto status = tool::reap(next.si_pid); // it may have ended since it was found stopped
        if (is_ours && status && WIFSIGNALED(*status) && (WTERMSIG(*status) == passed_on_ ? was_typed_ : has_terminal_))
            killed_on_terminal_ = WTERMSIG(*status);
        if (is_ours && status && !WIFSTOPPED(*status))
            note_end(*status);
        else if (is_ours && status && WSTOPSIG(*status) != SIGSTOP) { // the sender of a SIGSTOP will also continue it
            const bool needs_terminal = WSTOPSIG(*status) == SIGTTIN || WSTOPSIG(*status) == SIGTTOU;
            if (!stop_with_it(0) && needs_terminal)
                refuse_terminal();
        }
        next = {};
    }
}

void command::note_end(int wait_status)
{
    pid_ = 0;
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    if (int failure; ::read(report_, &failure, sizeof failure) == sizeof failure) {
        exit_status_ = status_if_not_run(failure);
        failure_ = why_not_run(program_, failure);
        internal::print_at_once(failure_);
        return;
    }
    exit_status_ = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    failure_ = failure_of(wait_status);
}

// Ctrl-Z reaches the command's group or ours, depending on which has the terminal; a command that reads the terminal in
// the background is stopped, too. The shell waits for our group, which may be that of a script, and a lease must not be
// extended for ever while the command does nothing. So all stop and continue together.
bool command::stop_with_it(pid_t whom) noexcept
{
    ::kill(-pid_, SIGSTOP);
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
    const bool was_stopped = events_.stop(whom);
    has_terminal_ = we_have_terminal(); // fg or bg
    if (has_terminal_)
        ::tcsetpgrp(STDIN_FILENO, pid_);
    ::kill(-pid_, SIGCONT);
    return was_stopped;
}

// Where no shell can give it the terminal that it needs, it would be stopped and continued for ever. The kernel sends
// SIGHUP to what is stopped without a shell.
void command::refuse_terminal() noexcept
{
    signal_group(std::exchange(is_hung_up_, true) ? SIGKILL : SIGHUP);
}

} // namespace shedlock::tool
