#include "dsn_command.hpp"

#include "opening.hpp"

#include <csignal>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace shedlock::tool {

namespace {

std::mutex children_mutex;                    // keeps a new child from being reaped before it is in the map
std::map<pid_t, std::optional<int>> children; // of ask_for_dsn, with the status of those that have ended

// child: as for waitpid. Returns the one that it has reaped or found stopped, and its status.
std::optional<std::pair<pid_t, int>> reap_locked(pid_t child)
{
    int status = 0;
    const pid_t reaped = ::waitpid(child, &status, WUNTRACED | WNOHANG);
    if (reaped <= 0)
        return std::nullopt;
    if (const auto ours = children.find(reaped); ours != children.end() && !WIFSTOPPED(status))
        ours->second = status;
    return std::pair{reaped, status};
}

[[noreturn]] void raise(const std::string &what)
{
    throw error{"--dsn-command " + what};
}

[[noreturn]] void raise(int failure)
{
    throw std::system_error{failure, std::generic_category(), "cannot run --dsn-command"};
}

std::vector<char *> environment_without_ours()
{
    std::vector<char *> list;
    for (char **variable = ::environ; *variable; ++variable)
        if (!std::string_view{*variable}.starts_with("SHEDLOCK_"))
            list.push_back(*variable);
    list.push_back(nullptr);
    return list;
}

class output_pipe {
public:
    output_pipe()
    {
        if (::pipe2(ends_, O_CLOEXEC) != 0)
            raise(errno);
        ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    }
    ~output_pipe()
    {
        close_writing_end();
        ::close(ends_[0]);
    }
    output_pipe(const output_pipe &) = delete;
    output_pipe &operator=(const output_pipe &) = delete;

    [[nodiscard]] int writing_end() const noexcept { return ends_[1]; }
    void close_writing_end() noexcept
    {
        if (ends_[1] >= 0)
            ::close(std::exchange(ends_[1], -1));
    }

    // Reads what is there, after waiting for it a moment. A connection string is not that long: the rest is dropped.
    void read_into(std::string &printed)
    {
        constexpr std::size_t longest = 65536;
        pollfd here{is_at_end_ ? -1 : ends_[0], POLLIN, 0};
        ::poll(&here, 1, 10);
        char some[4096];
        for (int reads = 0; reads < 16 && !is_at_end_; ++reads) { // a writer may be faster than we are
            const auto count = ::read(ends_[0], some, sizeof some);
            if (count < 0)
                return;
            is_at_end_ = count == 0;
            printed.append(some, std::min<std::size_t>(static_cast<std::size_t>(count), longest - printed.size()));
        }
    }

private:
    int ends_[2];
    bool is_at_end_ = false;
};

class child {
public:
    child(const std::string &command, int output)
    {
        posix_spawn_file_actions_t files;
        posix_spawnattr_t how;
        sigset_t none;
        ::sigemptyset(&none);
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawnattr_init(&how);
        ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
        ::posix_spawnattr_setsigmask(&how, &none);
        std::string words[]{"sh", "-c", command};
        char *const arguments[]{words[0].data(), words[1].data(), words[2].data(), nullptr};
        std::signal(SIGCHLD, SIG_DFL); // if the program that started us ignores it, children end without a status

        const std::lock_guard hold{children_mutex};
        const int failure = ::posix_spawn(&pid_, "/bin/sh", &files, &how, arguments, environment_without_ours().data());
        ::posix_spawn_file_actions_destroy(&files);
        ::posix_spawnattr_destroy(&how);
        if (failure != 0)
            raise(failure);
        children[pid_];
    }
    // Kills its group if it has not ended.
    ~child()
    {
        std::unique_lock hold{children_mutex};
        if (!children[pid_]) {
            ::kill(-pid_, SIGKILL);
            hold.unlock();
            ::waitpid(pid_, nullptr, 0);
            hold.lock();
        }
        children.erase(pid_);
    }
    child(const child &) = delete;
    child &operator=(const child &) = delete;

    // nullopt while it runs.
    [[nodiscard]] std::optional<int> status() const
    {
        const std::lock_guard hold{children_mutex};
        if (!children[pid_])
            reap_locked(pid_);
        return children[pid_];
    }

private:
    pid_t pid_ = 0;
};

} // namespace

std::string ask_for_dsn(const std::string &command, clock::duration patience)
{
    const auto until = internal::later(clock::now(), patience);
    std::string printed;
    output_pipe output;
    const child running{command, output.writing_end()};
    output.close_writing_end();
    auto status = running.status();
    for (; !status; status = running.status()) {
        if (clock::now() >= until)
            raise("did not end in time, and was killed");
        output.read_into(printed);
    }
    output.read_into(printed);
    if (WIFSIGNALED(*status))
        raise("was killed by signal " + std::to_string(WTERMSIG(*status)));
    if (*status != 0)
        raise("ended with status " + std::to_string(WEXITSTATUS(*status)));
    auto line = printed.substr(0, printed.find('\n'));
    if (!internal::is_connection_string(line) || line.find('\0') != line.npos)
        raise("printed no connection string"); // libpq would take it for the name of a database, and show it
    return line;
}

std::optional<int> reap(pid_t child)
{
    const std::lock_guard hold{children_mutex};
    const auto one = reap_locked(child);
    return one ? std::optional{one->second} : std::nullopt;
}

void reap_all()
{
    const std::lock_guard hold{children_mutex};
    while (reap_locked(-1)) {
    }
}

} // namespace shedlock::tool
