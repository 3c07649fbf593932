// relay FROM TO MICROSECONDS: a network between two that are on one machine. Who connects to the unix socket FROM is
// connected to the unix socket TO, and what either sends reaches the other that much later: twice that is added to a
// round trip, however much is on its way.
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <iostream>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace {

using clock_type = std::chrono::steady_clock;
using std::chrono::nanoseconds;

void require(bool good, std::string const &what)
{
    if (!good)
        throw std::runtime_error{what};
}

int open_at(std::string const &path, int (*act)(int, sockaddr const *, socklen_t))
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    require(path.size() < sizeof address.sun_path, path + ": too long");
    path.copy(address.sun_path, path.size());
    int const made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(act(made, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0, path);
    return made;
}

// One direction.
struct line {
    struct parcel {
        clock_type::time_point due;
        std::string bytes;
    };
    int from;
    int to;
    std::deque<parcel> on_its_way{};

    bool take(clock_type::time_point due)
    {
        std::array<char, 65536> bytes;
        auto const count = ::read(from, bytes.data(), bytes.size());
        if (count > 0)
            on_its_way.push_back({due, {bytes.data(), static_cast<std::size_t>(count)}});
        return count > 0;
    }
    bool deliver(clock_type::time_point now)
    {
        for (; !on_its_way.empty() && on_its_way.front().due <= now; on_its_way.pop_front()) {
            auto const &bytes = on_its_way.front().bytes;
            if (::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
                return false;
        }
        return true;
    }
};

nanoseconds until_due(std::array<line, 2> const &lines)
{
    nanoseconds least{999'999'999};
    for (auto const &one : lines)
        if (!one.on_its_way.empty())
            least = std::min(least, nanoseconds{one.on_its_way.front().due - clock_type::now()});
    return std::max(least, nanoseconds{0});
}

void connect_both(int here, int there, nanoseconds delay)
{
    ::prctl(PR_SET_TIMERSLACK, 1); // to the point
    std::array<line, 2> lines{{{here, there}, {there, here}}};
    for (bool alive = true; alive;) {
        std::array<pollfd, 2> both{{{here, POLLIN, 0}, {there, POLLIN, 0}}};
        timespec const pause{0, until_due(lines).count()};
        ::ppoll(both.data(), both.size(), &pause, nullptr);
        auto const now = clock_type::now();
        for (std::size_t i = 0; i < lines.size(); i++)
            alive = alive && (both[i].revents == 0 || lines[i].take(now + delay)) && lines[i].deliver(now);
    }
    ::close(here);
    ::close(there);
}

} // namespace

int main(int count, char **arguments)
try {
    require(count == 4, "relay FROM TO MICROSECONDS");
    int const listener = open_at(arguments[1], ::bind);
    ::chmod(arguments[1], 0777); // a server is another user
    require(::listen(listener, 8) == 0, "listen");
    for (;;) {
        int const here = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        std::thread{connect_both, here, open_at(arguments[2], ::connect),
                    std::chrono::microseconds{std::stoi(arguments[3])}}
            .detach();
    }
} catch (std::exception const &failure) {
    std::cerr << "relay: " << failure.what() << '\n';
    return 1;
}
