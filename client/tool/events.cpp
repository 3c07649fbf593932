#include "events.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace shedlock::tool {

using namespace std::chrono_literals;

namespace {

bool is_ignored(int number)
{
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    return action.sa_handler == SIG_IGN;
}

// By default every signal, because one that ended us would leave the lock held. There are reasons to leave some out.
bool is_awaited(int number)
{
    switch (number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT: // faults of our own
    case SIGPIPE:
    case SIGXFSZ: // caused by a write of our own, which also fails, and that is enough
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGTTIN:
    case SIGTTOU: // do not end a process
        return false;
    default:
        return !is_ignored(number);
    }
}

int require(int descriptor, const char *what)
{
    if (descriptor < 0)
        throw std::system_error{errno, std::generic_category(), what};
    return descriptor;
}

} // namespace

events::events()
{
    // If the program that started us ignores SIGCHLD, our children would end without a status.
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t ours;
    ::sigemptyset(&ours);
    for (int number = 1; number <= SIGRTMAX; ++number)
        if (is_awaited(number))
            ::sigaddset(&ours, number);

    auto blocked = ours;
    // With TTOU blocked we can take the terminal back. With CONT blocked in every thread it stays pending until stop()
    // has seen it.
    for (const int number : {SIGPIPE, SIGXFSZ, SIGTTOU, SIGCONT})
        ::sigaddset(&blocked, number);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &found_);
    signals_ = require(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
    calls_ = require(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
}

events::~events()
{
    ::close(signals_);
    ::close(calls_);
    if (ends_by_ == 0)
        return;
    restore();
    ::kill(ends_, ends_by_);
}

int events::wait(std::optional<clock::time_point> until)
{
    pollfd either[] = {{signals_, POLLIN, 0}, {calls_, POLLIN, 0}};
    const auto now = clock::now();
    int at_most = -1;
    if (until) // an hour at a time, because poll counts milliseconds in an int
        at_most = static_cast<int>(
            std::chrono::ceil<std::chrono::milliseconds>(std::clamp(*until, now, now + 1h) - now).count());
    ::poll(either, 2, at_most);

    signalfd_siginfo signal{};
    if (::read(signals_, &signal, sizeof signal) == sizeof signal) {
        was_typed_ = signal.ssi_code == SI_KERNEL;
        return static_cast<int>(signal.ssi_signo);
    }
    std::uint64_t count = 0;
    [[maybe_unused]] const auto forgotten = ::read(calls_, &count, sizeof count);
    return 0;
}

void events::call() const noexcept
{
    std::uint64_t const one = 1;
    [[maybe_unused]] const auto written = ::write(calls_, &one, sizeof one);
}

// Whoever is stopped goes on after a SIGCONT, which stays pending while it is blocked. SIGTSTP removes earlier ones.
bool events::stop(pid_t whom) const noexcept
{
    sigset_t stops, continues;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTSTP);
    ::sigemptyset(&continues);
    ::sigaddset(&continues, SIGCONT);
    ::kill(whom, SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
    ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
    const timespec at_once{};
    return ::sigtimedwait(&continues, nullptr, &at_once) == SIGCONT;
}

int events::end_by(int number, pid_t whom) noexcept
{
    if (number == SIGINT || number == SIGQUIT)
        ends_by_ = number;
    ends_ = whom;
    return 128 + number;
}

void events::restore() const noexcept
{
    ::pthread_sigmask(SIG_SETMASK, &found_, nullptr);
}

} // namespace shedlock::tool
