#include "exit.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <libpq-fe.h>
#include <thread>
#include <unistd.h>

namespace shedlock::internal {

namespace {

using namespace std::chrono_literals;

std::atomic<bool> is_skipped = false;
std::atomic<bool> has_begun = false; // the end of the process
std::atomic<int> users = 0;
std::atomic<pid_t> process = 0; // the one that counted the users: a forked child has the count, but not the threads

void await_end_of_tls_use() noexcept
{
    if (process != ::getpid())
        return;
    has_begun = true;
    for (int i = 0; i < 5000 && users > 0; ++i)
        std::this_thread::sleep_for(1ms);
}

// Initialises libpq's TLS library, which would otherwise happen when a connection first needs it. libpq has no function
// that only initialises OpenSSL. But PQencryptPassword makes OpenSSL compute MD5, and for that OpenSSL initialises
// itself, even where FIPS mode then forbids MD5.
void prepare_tls() noexcept
{
    PQfreemem(PQencryptPassword("", ""));
}

} // namespace

void prepare_for_exit() noexcept
{
    if (is_skipped || has_begun)
        return;
    prepare_tls();
    // After a fork. The first call must not forget a user that another thread has begun.
    if (const auto before = process.exchange(::getpid()); before != 0 && before != ::getpid())
        users = 0;
    [[maybe_unused]] static const int registered = std::atexit(await_end_of_tls_use);
}

void skip_preparation_for_exit() noexcept
{
    is_skipped = true;
}

bool is_exiting() noexcept
{
    return has_begun;
}

// Either the handler sees this user, or this user sees that the handler has begun.
tls_use::tls_use() noexcept : is_allowed_{(++users, !has_begun)}
{
}

tls_use::~tls_use()
{
    --users;
}

} // namespace shedlock::internal
