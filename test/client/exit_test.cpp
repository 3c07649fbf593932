// Clients that live until the process exits.
#include "fixture.hpp"

#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

class exit_test : public with_server {
protected:
    // The wait status of static_client.
    static int status_of(std::string how, std::string lock)
    {
        auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("static_client").string();
        char *const arguments[] = {program.data(), how.data(), lock.data(), nullptr};
        pid_t child = 0;
        EXPECT_EQ(::posix_spawn(&child, arguments[0], nullptr, nullptr, arguments, ::environ), 0);
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        return status;
    }
};

// libpq makes OpenSSL register an exit handler. If the handler runs before the client is gone, the client's threads may
// be using what OpenSSL frees.
TEST_F(exit_test, a_static_client_is_gone_before_openssl_cleans_up)
{
    EXPECT_EQ(status_of("static", name), 0);
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(exit_test, a_client_that_is_destroyed_later_does_without_openssl)
{
    EXPECT_EQ(status_of("late", name), 0);
}
