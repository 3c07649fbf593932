// Clients that live until the process exits.
#include "fixture.hpp"

#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

class exit_test : public with_server {};

// libpq makes OpenSSL register an exit handler. If it runs before the client is gone, the client's threads may be using
// what it frees.
TEST_F(exit_test, a_static_client_is_gone_before_openssl_cleans_up)
{
    auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("static_client").string();
    auto lock = name;
    char *const arguments[] = {program.data(), lock.data(), nullptr};
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, arguments[0], nullptr, nullptr, arguments, ::environ), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(server::state(name), "free");
}
