// static_client HOW LOCK: a program whose client lives until the process exits. Its exit status is 0 if all is well.
//   static  The client is static. When it and its threads have gone, OpenSSL still works.
//   late    The client is made in main, but destroyed by a static object that was made before: after OpenSSL has
//           cleaned up. It then opens no connection, which might need OpenSSL, and does no harm.
#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <optional>
#include <shedlock/shedlock.hpp>
#include <string_view>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

// Whether OpenSSL still works, which it does until it has cleaned up. True if there is no OpenSSL.
bool openssl_works()
{
    using init = int (*)(std::uint64_t options, const void *settings);
    const auto function = reinterpret_cast<init>(::dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto"));
    return !function || function(0, nullptr) == 1;
}

// Called when the function that supplies the connection string is destroyed, that is, together with the last part of
// the client that holds it.
const auto last_word = [](void *) { ::_exit(openssl_works() ? 0 : 1); };

bool opens_connection()
{
    try {
        (void) shedlock::client{}.try_acquire("another", {.at_most = 1ms});
        return true;
    } catch (const shedlock::connection_error &) {
        return false;
    }
}

struct late {
    std::optional<shedlock::client> client;
    std::optional<shedlock::lock> lock;

    ~late()
    {
        if (!client)
            return;
        const bool is_refused = !opens_connection();
        lock.reset();
        client.reset();
        ::_exit(is_refused ? 0 : 3);
    }
} late;

int exit_status(const std::optional<shedlock::lock> &lock)
{
    return lock ? 0 : 2;
}

int run_static(const char *name)
{
    static shedlock::client locks{[witness = std::shared_ptr<void>{nullptr, last_word}] { return std::string{}; },
                                  {.timeout = 1min}};
    return exit_status(locks.try_acquire(name, {.at_most = 1min, .keep_alive = true}));
}

int run_late(const char *name)
{
    late.client.emplace("", shedlock::client_settings{.timeout = 1min});
    late.lock = late.client->try_acquire(name, {.at_most = 1min, .keep_alive = true});
    return exit_status(late.lock);
}

} // namespace

int main(int, char **arguments)
{
    return std::string_view{arguments[1]} == "static" ? run_static(arguments[2]) : run_late(arguments[2]);
}
