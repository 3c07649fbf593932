// The library's threads leave signals to the application.
#include "fixture.hpp"

#include <csignal>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

using thread_test = with_server;

namespace {

std::set<std::string> threads()
{
    std::set<std::string> all;
    for (const auto &task : std::filesystem::directory_iterator{"/proc/self/task"})
        all.insert(task.path());
    return all;
}

const auto at_start = threads(); // the main one, and perhaps a sanitizer's

// A sanitizer may unblock SIGSYS while it starts a thread, which inherits that.
bool must_be_blocked(int signal)
{
    static const bool has_sanitizer = ::dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") != nullptr;
    return !std::set{SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}.contains(signal) &&
           !(has_sanitizer && signal == SIGSYS);
}

// The mask of a thread, unless that has ended.
std::optional<std::uint64_t> blocked_by(const std::string &task)
{
    std::ifstream status{task + "/status"};
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigBlk:"))
            return std::stoull(line.substr(7), nullptr, 16);
    return std::nullopt;
}

std::atomic<bool> is_taken = false;

void take(int)
{
    is_taken = true;
}

} // namespace

TEST_F(thread_test, blocks_signals)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    EXPECT_FALSE(locks.acquire(name, {.at_most = 1min}, 100ms));
    std::promise<void> end;
    shedlock::client slow{[ended = end.get_future().share()] {
                              ended.wait();
                              return server::connection();
                          },
                          {.timeout = 100ms}}; // the client is still connecting when the call is over
    EXPECT_THROW((void) slow.try_acquire(name, {.at_most = 1min}), shedlock::connection_error);
    int seen = 0;
    for (const auto &task : threads()) {
        const auto mask = at_start.contains(task) ? std::nullopt : blocked_by(task);
        seen += mask.has_value();
        for (int signal = 1; mask && signal < 32; ++signal)
            EXPECT_TRUE(!must_be_blocked(signal) || *mask >> (signal - 1) & 1) << signal << ' ' << task;
    }
    EXPECT_GE(seen, 4) << "two timers, the keeper, the connecting thread and, without a pooler, the waiting thread";
    end.set_value();
}

TEST_F(thread_test, lets_the_application_wait_for_a_signal)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    const auto before = std::signal(SIGUSR1, take);
    sigset_t one, old;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &old); // after the client was made
    ::kill(::getpid(), SIGUSR1);
    const timespec patience{10, 0};
    EXPECT_EQ(sigtimedwait(&one, nullptr, &patience), SIGUSR1);
    EXPECT_FALSE(is_taken) << "by a thread that did not block it";
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    std::signal(SIGUSR1, before);
}

TEST_F(thread_test, blocks_signals_but_no_faults_in_callbacks)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1h});
    std::promise<bool> blocked;
    const std::stop_callback when{mine->stop_token(), [&] {
                                      sigset_t mask;
                                      pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                                      blocked.set_value(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD) &&
                                                        !sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGBUS));
                                  }};
    advance_clock(1h);
    EXPECT_TRUE(blocked.get_future().get());
}
