// Programs that the tests start: their input, their output, and how they ended. None outlives its test.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace shedlock::test {

using words = std::vector<std::string>;

inline words operator+(words one, const words &more)
{
    one.insert(one.end(), more.begin(), more.end());
    return one;
}

struct outcome {
    int status; // as a shell gives it: 128 + n when signal n killed it
    std::string out, err;
};

inline constexpr struct in_terminal {
} terminal;

// A process is started with default signal handlers, in the folder of the test. PATH finds its program; "shedlock" is
// the tool. It has either a session without a terminal, where it reads the given input, or a terminal of 24 lines,
// where `out` is everything that the terminal shows.
class process {
public:
    explicit process(const words &, const std::string &input = {});
    process(in_terminal, const words &);
    ~process(); // kills it
    process(const process &) = delete;
    process &operator=(const process &) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int number) const;
    void type(std::string_view keys) const;

    // So far.
    std::string out();
    [[nodiscard]] std::string err() const;

    // Waits until this text has been written to out.
    bool says(std::string_view text);

    // Waits until it ends. The test fails if that takes too long.
    outcome wait();

private:
    pid_t pid_;
    int terminal_ = -1;
    int out_ = -1, err_ = -1; // files in memory: a pipe would be full if the test did not read it meanwhile
    std::string seen_;
    words command_;
};

outcome run(const words &, const std::string &input = {});

words sh(const std::string &script, const words &arguments = {});

bool is_running(pid_t);
bool is_stopped(pid_t);
bool has_pending(pid_t, int signal); // sent to the process, and not yet taken by any of its threads

// Once adopt_orphans() has been called, end_children() also ends processes that have lost their parent.
void adopt_orphans();
void end_children();

} // namespace shedlock::test
