// thousand CLIENT OBSERVER TIMEOUT (COUNT AT_MOST)...: one client on the connection CLIENT acquires COUNT locks of
// AT_MOST ms for each group, and keeps all alive. They are named 0, 1, 2, ... Every tenth has three names: 9, 9b, 9c.
// Twenty times per second the client's view is compared with the rows, which are read on the connection OBSERVER.
//
// Prints "acquired", then "stopped NAME MS" when a stop is requested, MS after the deadline, and "event KIND NAME" for
// each event (the name is "all" if the event is about many). Each line of standard input is answered by a line that
// begins with it: "report" by what was seen since the last report; "fresh" by how many locks have more than half an
// hour left; "release" and "destroy" by how long that took for all locks; "callers" by how long each acquire took
// while ten threads acquired locks for 20 s and another extended lock 0 all the time; "cycles" by what 100,000
// acquires and releases cost in descriptors and memory. Ends with "end".
#include "shedlock/shedlock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <poll.h>
#include <pqxx/pqxx>
#include <syncstream>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace {

using shedlock::clock;
using std::chrono::milliseconds;
using instant = clock::time_point;

std::osyncstream say()
{
    return std::osyncstream{std::cout};
}

double in_ms(clock::duration time)
{
    return std::chrono::duration<double, std::milli>{time}.count();
}

double processor(clockid_t which)
{
    timespec used{};
    ::clock_gettime(which, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

// The library's threads: all except the main thread.
double processor_of_library()
{
    return processor(CLOCK_PROCESS_CPUTIME_ID) - processor(CLOCK_THREAD_CPUTIME_ID);
}

// ---- What the client believes ----

struct kept {
    explicit kept(shedlock::lock acquired) : lock{std::move(acquired)} {}

    void stopped() const
    {
        say() << "stopped " << lock.names().list().front() << ' ' << in_ms(clock::now() - lock.deadline()) << std::endl;
    }

    shedlock::lock lock;
    instant seen = lock.deadline();
    clock::duration least_left = clock::duration::max();
    std::stop_callback<std::function<void()>> when_stopped{lock.stop_token(), [this] { stopped(); }};
};

// The client's view at one moment: held, and until when.
struct claim {
    const kept &of;
    instant until;
};

void tell(const shedlock::event &what)
{
    constexpr std::array kinds{"extend_failing",  "extend_recovered", "lost",
                               "not_released",    "release_unclear",  "not_reported",
                               "acquire_failing", "acquire_recovered"};
    const auto &names = what.lock.list(); // empty if the event is about many
    say() << "event " << kinds.at(static_cast<std::size_t>(what.what)) << ' ' << (names.empty() ? "all" : names.front())
          << std::endl;
}

shedlock::names names_of(int number)
{
    const auto name = std::to_string(number);
    return number % 10 == 9 ? shedlock::names{name, name + 'b', name + 'c'} : shedlock::names{name};
}

// ---- What the table says ----

struct row {
    std::int64_t token;
    instant until;
};

class observer {
public:
    explicit observer(std::string where) : where_{std::move(where)} {}

    // All rows; none if there is no server.
    std::unordered_map<std::string, row> look()
    try {
        if (!connection_)
            connection_ = std::make_unique<pqxx::connection>(where_);
        const auto answer = pqxx::nontransaction{*connection_}.exec(
            "SELECT name, (extract(epoch FROM locked_at) * 1000000)::bigint, (extract(epoch FROM lock_until) * "
            "1000000)::bigint, (SELECT count(*) FROM pg_stat_activity WHERE usename = 'app') FROM shedlock");
        std::unordered_map<std::string, row> rows;
        for (const auto &one : answer)
            rows.emplace(one[0].c_str(), row{one[1].as<std::int64_t>(), by_our_clock(one[2].as<std::int64_t>())});
        if (!answer.empty())
            connections = std::max(connections, answer[0][3].as<int>());
        return rows;
    } catch (const pqxx::failure &) {
        connection_.reset();
        return {};
    }

    int connections = 0; // the maximum number of the client's connections since the last report

private:
    // The server runs on this machine, so it has the same clock.
    static instant by_our_clock(std::int64_t since_epoch)
    {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        return clock::now() + clock::duration{since_epoch} - std::chrono::duration_cast<clock::duration>(now);
    }

    const std::string where_;
    std::unique_ptr<pqxx::connection> connection_;
};

// ---- The comparison ----

class scene {
public:
    scene(const std::string &where, std::string observed_by, milliseconds timeout)
        : client_{where, {.timeout = timeout, .on_event = tell}}, observer_{std::move(observed_by)}
    {
        observer_.look(); // opens its connection before the client opens any
    }

    void acquire(int count, milliseconds at_most)
    {
        for (int i = 0; i < count; ++i)
            all_.emplace_back(
                client_.try_acquire(names_of(static_cast<int>(all_.size())), {.at_most = at_most, .keep_alive = true})
                    .value());
        answered_ = began_ = clock::now();
    }

    void compare()
    {
        if (all_.empty())
            return;
        const auto claims = note_claims();
        const auto rows = observer_.look();
        const auto now = clock::now();
        threads_ = std::max(threads_, std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {}));
        if (rows.empty())
            return;
        away_ = std::max(away_, now - answered_);
        answered_ = now;
        for (const auto &one : claims)
            if (now < one.until) // so the claim also held when the server looked
                check(one, rows);
    }

    void report()
    {
        const auto now = clock::now();
        auto least_left = clock::duration::max();
        const auto held = std::ranges::count_if(all_, [&](kept &one) {
            const bool is_held = one.lock.held();
            if (is_held)
                least_left = std::min(least_left, one.least_left);
            one.least_left = clock::duration::max();
            return is_held;
        });
        const auto used = processor_of_library();
        say() << "report held " << held << " rows " << rows_ << " wrong " << wrong_ << " extends " << extends_
              << " left " << in_ms(least_left) << " away " << in_ms(away_) << " connections " << observer_.connections
              << " threads " << threads_ << " seconds " << in_ms(now - began_) / 1000 << " processor " << used - used_
              << std::endl;
        rows_ = wrong_ = extends_ = observer_.connections = threads_ = 0;
        away_ = {};
        began_ = now;
        used_ = used;
    }

    void fresh()
    {
        const auto soon = clock::now() + std::chrono::minutes{30};
        say() << "fresh locks " << std::ranges::count_if(all_, [&](kept &one) { return one.lock.deadline() > soon; })
              << std::endl;
    }

    void release()
    {
        for (auto &one : all_)
            try {
                one.lock.release();
            } catch (const shedlock::lock_lost &) {
            }
    }

    void destroy() { all_.clear(); }

    void callers()
    {
        std::atomic<bool> is_over = false;
        const std::jthread stuck{[&] {
            const auto &lock = all_.front().lock;
            while (!is_over)
                try {
                    client_.extend(lock.names(), lock.token(), std::chrono::hours{1});
                } catch (const shedlock::error &) { // another transaction has its row
                }
        }};
        std::array<std::vector<double>, 10> took;
        std::atomic<int> failed = 0;
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < took.size(); ++i)
                threads.emplace_back([&, i] { failed += call_for_20_s("caller " + std::to_string(i), took.at(i)); });
        }
        is_over = true;
        std::vector<double> all;
        for (const auto &one : took)
            all.insert(all.end(), one.begin(), one.end());
        std::ranges::sort(all);
        const auto at = [&](double share) {
            return all.at(static_cast<std::size_t>(share * static_cast<double>(all.size() - 1)));
        };
        say() << "callers count " << all.size() << " failed " << failed << " median " << at(0.5) << " most " << at(0.99)
              << " greatest " << at(1) << std::endl;
    }

    void cycles()
    {
        cycle(1000);
        const auto descriptors = open_files();
        const auto megabytes = memory();
        const auto failed = cycle(100'000);
        say() << "cycles failed " << failed << " descriptors " << open_files() - descriptors << " megabytes "
              << memory() - megabytes << std::endl;
    }

private:
    int call_for_20_s(const std::string &name, std::vector<double> &took)
    {
        int failed = 0;
        for (const auto end = clock::now() + std::chrono::seconds{20}; clock::now() < end;) {
            const auto begin = clock::now();
            try {
                const auto lock = client_.try_acquire(name, {.at_most = std::chrono::minutes{1}});
                took.push_back(in_ms(clock::now() - begin));
            } catch (const shedlock::error &) {
                ++failed;
            }
        }
        return failed;
    }

    int cycle(int count)
    {
        int failed = 0;
        for (int i = 0; i < count; ++i)
            try {
                const auto lock = client_.try_acquire("cycle", {.at_most = std::chrono::minutes{1}});
            } catch (const shedlock::error &) { // its session was ended
                ++failed;
            }
        return failed;
    }

    static std::ptrdiff_t open_files()
    {
        return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
    }

    static double memory()
    {
        std::ifstream pages{"/proc/self/statm"};
        double size = 0, resident = 0;
        pages >> size >> resident;
        return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
    }

    std::vector<claim> note_claims()
    {
        std::vector<claim> claims;
        for (auto &one : all_) {
            const auto until = one.lock.deadline();
            extends_ += until > one.seen;
            one.seen = until;
            one.least_left = std::min(one.least_left, until - clock::now());
            if (one.lock.held())
                claims.push_back({one, until});
        }
        return claims;
    }

    void check(const claim &claimed, const std::unordered_map<std::string, row> &rows)
    {
        for (const auto &name : claimed.of.lock.names().list()) {
            const auto found = rows.find(name);
            const bool is_so = found != rows.end() && shedlock::token{found->second.token} == claimed.of.lock.token() &&
                               found->second.until > claimed.until;
            ++(is_so ? rows_ : wrong_);
        }
    }

    shedlock::client client_;
    std::deque<kept> all_;
    observer observer_;

    long rows_ = 0, wrong_ = 0, extends_ = 0, threads_ = 0;
    instant answered_ = clock::now(), began_ = answered_;
    clock::duration away_{};
    double used_ = processor_of_library();
};

bool has_input(milliseconds wait)
{
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, static_cast<int>(wait.count())) > 0;
}

void obey(scene &here, const std::string &command)
{
    if (command == "report") {
        here.compare();
        return here.report();
    }
    if (command == "fresh")
        return here.fresh();
    if (command == "callers")
        return here.callers();
    if (command == "cycles")
        return here.cycles();
    const auto begin = clock::now();
    command == "release" ? here.release() : here.destroy();
    say() << command << " ms " << in_ms(clock::now() - begin) << std::endl;
}

} // namespace

int main(int count, char **words)
try {
    if (count < 6 || count % 2)
        throw std::runtime_error{"thousand CLIENT OBSERVER TIMEOUT (COUNT AT_MOST)..."};
    scene here{words[1], words[2], milliseconds{std::stoi(words[3])}};
    for (int i = 4; i < count; i += 2)
        here.acquire(std::stoi(words[i]), milliseconds{std::stoi(words[i + 1])});
    say() << "acquired" << std::endl;
    for (std::string command;; here.compare())
        if (has_input(milliseconds{50})) {
            if (!std::getline(std::cin, command) || command == "end")
                return 0;
            obey(here, command);
        }
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
