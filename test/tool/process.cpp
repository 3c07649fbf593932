#include "process.hpp"

#include "../client/server.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shedlock::test {

using server::comes_true;

namespace {

int file_with(const std::string &content)
{
    const int file = ::memfd_create("test", MFD_CLOEXEC);
    for (std::size_t done = 0; done < content.size();)
        done +=
            static_cast<std::size_t>(std::max<ssize_t>(::write(file, content.data() + done, content.size() - done), 0));
    ::lseek(file, 0, SEEK_SET);
    return file;
}

std::string content_of(int file)
{
    std::string content;
    std::array<char, 65536> part{};
    for (ssize_t size; (size = ::pread(file, part.data(), part.size(), static_cast<off_t>(content.size()))) > 0;)
        content.append(part.data(), static_cast<std::size_t>(size));
    return content;
}

[[noreturn]] void become(const words &command)
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int number = 1; number < NSIG; ++number) // a shell starts background commands with some signals ignored
        std::signal(number, SIG_DFL);
    std::vector<char *> pointers;
    for (const auto &word : command)
        pointers.push_back(const_cast<char *>(word.c_str()));
    pointers.push_back(nullptr);
    ::execvp(pointers[0], pointers.data());
    ::_exit(99);
}

// A letter, as ps shows it.
char state_of(pid_t pid)
{
    std::ifstream about{"/proc/" + std::to_string(pid) + "/stat"};
    const std::string line{std::istreambuf_iterator<char>{about}, {}};
    const auto end_of_name = line.rfind(") ");
    return end_of_name == std::string::npos ? '-' : line[end_of_name + 2];
}

int status_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace

process::process(const words &command, const std::string &input)
    : out_{file_with({})}, err_{file_with({})}, command_{command}
{
    const int in = file_with(input);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::setsid();
        ::dup2(in, STDIN_FILENO);
        ::dup2(out_, STDOUT_FILENO);
        ::dup2(err_, STDERR_FILENO);
        become(command);
    }
    ::close(in);
}

process::process(in_terminal, const words &command) : command_{command}
{
    const winsize size{24, 80, 0, 0};
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0)
        become(command);
    ::fcntl(terminal_, F_SETFL, O_NONBLOCK);
    ::fcntl(terminal_, F_SETFD, FD_CLOEXEC);
}

process::~process()
{
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    for (const int descriptor : {terminal_, out_, err_})
        if (descriptor >= 0)
            ::close(descriptor);
}

void process::signal(int number) const
{
    ::kill(pid_, number);
}

void process::type(std::string_view keys) const
{
    EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

std::string process::out()
{
    if (terminal_ < 0)
        return content_of(out_);
    std::array<char, 4096> part{};
    for (ssize_t size; (size = ::read(terminal_, part.data(), part.size())) > 0;)
        seen_.append(part.data(), static_cast<std::size_t>(size));
    return seen_;
}

std::string process::err() const
{
    return err_ < 0 ? "" : content_of(err_);
}

bool process::says(std::string_view text)
{
    const bool said = comes_true([&] { return out().find(text) != std::string::npos; });
    EXPECT_TRUE(said) << command_.front() << " does not say \"" << text << "\" but: " << out() << err();
    return said;
}

outcome process::wait()
{
    int status = 0;
    const bool over = comes_true([&] {
        out(); // otherwise the terminal would be full
        return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    EXPECT_TRUE(over) << command_.front() << " does not end. It said: " << out() << err();
    if (!over)
        return {-1, out(), err()};
    pid_ = 0;
    return {status_of(status), out(), err()};
}

outcome run(const words &command, const std::string &input)
{
    return process{command, input}.wait();
}

words sh(const std::string &script, const words &arguments)
{
    return words{"sh", "-c", script, "sh"} + arguments;
}

bool is_running(pid_t pid)
{
    return std::string{"ZX-"}.find(state_of(pid)) == std::string::npos;
}

bool is_stopped(pid_t pid)
{
    return state_of(pid) == 'T';
}

bool has_pending(pid_t pid, int signal)
{
    std::ifstream about{"/proc/" + std::to_string(pid) + "/status"};
    for (std::string line; std::getline(about, line);)
        if (line.starts_with("ShdPnd:"))
            return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
    return false;
}

void adopt_orphans()
{
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void end_children()
{
    const auto self = std::to_string(::getpid());
    for (bool some = true; some;) {
        some = false;
        std::ifstream children{"/proc/self/task/" + self + "/children"};
        for (pid_t child; children >> child; some = true) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
    }
}

} // namespace shedlock::test
