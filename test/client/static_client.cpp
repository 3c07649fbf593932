// A program whose client is static. Its exit status: 0 if OpenSSL still works when the client and its threads have
// gone, 1 if its exit handler has run before. No OpenSSL, no trouble: 0.
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <shedlock/shedlock.hpp>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

// Refused once OpenSSL has cleaned up.
bool openssl_works()
{
    using init = int (*)(std::uint64_t options, void const *settings);
    auto const function = reinterpret_cast<init>(::dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto"));
    return !function || function(0, nullptr) == 1;
}

// The client's last owner of its function, which it calls for a connection string, destroys it.
auto const last_word = [](void *) { ::_exit(openssl_works() ? 0 : 1); };

shedlock::client locks{[witness = std::shared_ptr<void>{nullptr, last_word}] { return std::string{}; }};

} // namespace

int main(int, char **arguments)
{
    return locks.try_acquire(arguments[1], {.at_most = 1min, .keep_alive = true}) ? 0 : 2;
}
