#include "crowd.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <unistd.h>

namespace crowd {

namespace {

microseconds read_clock(clockid_t clock)
{
    timespec time{};
    ::clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000LL + time.tv_nsec / 1000;
}

constexpr int patience = 20;

} // namespace

// Reads both clocks at one instant. If their difference changes, the checker treats that as a step of the wall clock.
history::moment now()
{
    for (int i = 0;; ++i) {
        const auto before = read_clock(CLOCK_MONOTONIC);
        const auto wall = read_clock(CLOCK_REALTIME);
        const auto after = read_clock(CLOCK_MONOTONIC);
        if (after - before <= 3 || i > patience)
            return {after, wall};
    }
}

void pause(microseconds time)
{
    ::usleep(static_cast<useconds_t>(time));
}

std::int64_t choices::between(std::int64_t low, std::int64_t high)
{
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

microseconds choices::lease(const scene &scene)
{
    const auto part = static_cast<double>(between(0, 1000)) / 1000;
    const auto ratio = static_cast<double>(scene.longest) / static_cast<double>(scene.shortest);
    return static_cast<microseconds>(static_cast<double>(scene.shortest) * std::pow(ratio, part) / 1000) * 1000;
}

recorder::recorder(int file, tally &shared, int client) : file_{file}, tally_{shared}, client_{client}
{
}

bool recorder::may_go_on()
{
    return tally_.left > 0;
}

void recorder::call(operation &op)
{
    op.number = tally_.next_number++;
    --tally_.left;
    op.client = client_;
    op.called = now();
    write(history::call_line(op));
}

void recorder::done(operation &op)
{
    op.done = now();
    write(history::done_line(op));
}

// The token is written before its number, since the client may be killed in between.
void recorder::share(std::size_t index, const operation &granted)
{
    const auto number = static_cast<std::size_t>(granted.number);
    if (index >= tally_.latest.size() || number >= tally_.tokens.size())
        return;
    tally_.tokens[number] = granted.token.value();
    tally_.latest[index] = granted.number;
}

std::pair<int, microseconds> recorder::shared(std::size_t index) const
{
    const int number = index < tally_.latest.size() ? tally_.latest[index].load() : 0;
    return {number, tally_.tokens[static_cast<std::size_t>(number)]};
}

void recorder::write(const std::string &line)
{
    const auto text = line + '\n';
    if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        throw std::runtime_error{"cannot write the history"};
}

operation random_acquire(choices &random, const scene &scene, history::maker by, bool with_tick)
{
    operation op{.what = history::action::acquire, .by = by};
    if (with_tick && !scene.tick_names.empty()) {
        op.names = {random.one_of(scene.tick_names)};
        // The tick is of this slot, or of the next one, as if from a scheduler whose clock is a little ahead, or of a
        // past one, which was missed or has already run.
        op.tick = now().wall / slot * slot;
        if (random.one_in(4))
            op.tick = *op.tick + slot;
        else if (random.one_in(3))
            op.tick = *op.tick - slot * random.between(1, 3);
        op.retry = by != history::maker::library && random.one_in(2);
        if (by != history::maker::library && random.one_in(4))
            op.start_within = random.between(1, 2 * slot);
        if (random.one_in(8)) { // as if started by hand
            op.tick.reset();
            op.start_within.reset();
            op.retry = false;
        }
    } else {
        op.names = {random.one_of(scene.names)};
        if (by != history::maker::java && scene.names.size() > 1 && random.one_in(8)) {
            op.names.push_back(random.one_of(scene.names));
            if (op.names[0] == op.names[1])
                op.names.pop_back();
        }
    }
    op.at_most = random.lease(scene);
    op.at_least = random.one_in(4) ? op.at_most / random.between(1, 10) / 1000 * 1000 : 0;
    if (random.one_in(10))
        op.wait = random.between(1, 30) * 1000;
    return op;
}

} // namespace crowd
