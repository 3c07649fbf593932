// exits HOW CONNECTION LOCK MS: a program that holds a lock which is kept alive, and ends after MS milliseconds with
// status 7. HOW is one of
//   static    main returns; the client and its lock are static
//   late      the same, but the client is put into a static object that was made before main, so OpenSSL has cleaned
//             up when the client is destroyed
//   exit      main calls std::exit(); its client is a local variable
//   thread    another thread calls std::exit(), while main waits for the lock, which it holds itself
//   callback  std::exit() is called in on_activity, by a thread of the library, at the first extend, a little after MS
#include <shedlock/shedlock.hpp>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

constexpr int status = 7;

struct job {
    std::string connection;
    std::string lock;
    std::chrono::milliseconds work;
};

constexpr auto patience = 1h; // a process that something else stops for a while has not failed

// So short that keep-alive connects at once, perhaps while the process exits.
const shedlock::options lease{.at_most = 2s, .keep_alive = true};

int run_static(const job &one)
{
    static shedlock::client locks{one.connection, {.timeout = patience}};
    static auto lock = locks.try_acquire(one.lock, lease);
    std::this_thread::sleep_for(one.work);
    return lock ? status : 3;
}

struct {
    std::optional<shedlock::client> client;
    std::optional<shedlock::lock> lock;
} late;

int run_late(const job &one)
{
    late.client.emplace(one.connection, shedlock::client_settings{.timeout = patience});
    late.lock = late.client->try_acquire(one.lock, lease);
    std::this_thread::sleep_for(one.work);
    return late.lock ? status : 3;
}

int run_exit(const job &one)
{
    shedlock::client locks{one.connection, {.timeout = patience}};
    const auto lock = locks.try_acquire(one.lock, lease);
    std::this_thread::sleep_for(one.work);
    std::exit(lock ? status : 3);
}

int run_thread(const job &one)
{
    shedlock::client locks{one.connection, {.timeout = patience}};
    const auto lock = locks.try_acquire(one.lock, lease);
    const std::jthread ending{[&] {
        std::this_thread::sleep_for(one.work);
        std::exit(status);
    }};
    (void) locks.acquire(one.lock, {.at_most = 1min}, patience);
    return 3;
}

int run_callback(const job &one)
{
    shedlock::client locks{
        one.connection,
        {.timeout = patience,
         .on_event = [](const auto &) { std::exit(status); }, // on a busy machine the lock may be lost
         .on_activity =
             [](const shedlock::activity &what) {
                 if (what.what == shedlock::activity::kind::extended)
                     std::exit(status);
             }}};
    const auto lock = locks.try_acquire(one.lock, {.at_most = 100ms + 3 * one.work, .keep_alive = true});
    std::this_thread::sleep_for(1h);
    return 3;
}

const std::map<std::string, std::function<int(const job &)>> ways{
    {"static", run_static}, {"late", run_late}, {"exit", run_exit}, {"thread", run_thread}, {"callback", run_callback}};

} // namespace

int main(int, char **words)
try {
    return ways.at(words[1])({words[2], words[3], std::chrono::milliseconds{std::stoi(words[4])}});
} catch (const shedlock::lock_lost &) { // on a busy machine the lease may be over before the reply comes
    return status;
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
